// Visibility of the public interface; everything else is hidden.
#pragma once

#define TJIT_API __attribute__((visibility("default")))
