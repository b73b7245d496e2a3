#include "compiler/functions/vml_tables.h"

#include <algorithm>
#include <bit>
#include <cstdint>

namespace tjit {
namespace {

// Centres are such that their values (and below 2 the slopes) are floats but
// for 2^-35. Where |tanh - middle| was below `measured` of tanh, in units of
// 2^-23, VML has rounded otherwise: the most of all numbers.
struct Piece {
  float centre, value, slope, second, third, fourth, fifth, sixth, measured;
};
constexpr Piece kPieces[] = {
    {0, 0, 0x1p0F, 0, -0x1.555542p-2F, -0x1.c0fbe2p-16F, 0x1.12d07ep-3F,
     -0x1.73c2fp-7F, 0.00213F},
    {0x1.5d181ap-4F, 0x1.5c4058p-4F, 0x1.fc4c82p-1F, -0x1.59bc4ap-4F,
     -0x1.4b8238p-2F, 0x1.1de308p-4F, 0x1.3e0446p-6F, -0x1.fd9edap6F, 0.00099F},
    {0x1.a2bacp-4F, 0x1.a146e2p-4F, 0x1.faafbp-1F, -0x1.9cf262p-4F,
     -0x1.4745b6p-2F, 0x1.243c5ap-4F, 0x1.b82176p-4F, -0x1.7ffd4ap5F, 0.00080F},
    {0x1.ded4eep-4F, 0x1.dca99p-4F, 0x1.f910f2p-1F, -0x1.d63546p-4F,
     -0x1.43073p-2F, 0x1.5b1df2p-4F, 0x1.505108p-4F, -0x1.8babd4p6F, 0.00088F},
    {0x1.1c947p-3F, 0x1.1ac324p-3F, 0x1.f63d6cp-1F, -0x1.155f34p-3F,
     -0x1.3badfp-2F, 0x1.63edaap-4F, 0x1.d7cf9ap-4F, 0x1.bcaaeap0F, 0.00021F},
    {0x1.5eb226p-3F, 0x1.5b4edp-3F, 0x1.f1468ap-1F, -0x1.5151d4p-3F,
     -0x1.2eead8p-2F, 0x1.ac9fc2p-4F, 0x1.c2cd32p-4F, 0x1.d32a8ep-1F, 0.00021F},
    {0x1.a2db3p-3F, 0x1.9d1cbep-3F, 0x1.eb2ad2p-1F, -0x1.8c4d94p-3F,
     -0x1.1f7afap-2F, 0x1.eceb3ap-4F, 0x1.d07162p-4F, 0x1.2982f4p1F, 0.00017F},
    {0x1.df9c2ap-3F, 0x1.d707dp-3F, 0x1.e4ea92p-1F, -0x1.be1d46p-3F,
     -0x1.0ff7f4p-2F, 0x1.152e5p-3F, 0x1.c28cdep-5F, -0x1.0976a6p2F, 0.00015F},
    {0x1.23d1dcp-2F, 0x1.1c2b16p-2F, 0x1.d8920cp-1F, -0x1.0648c8p-2F,
     -0x1.e4863ep-3F, 0x1.3559bep-3F, 0x1.e0361ap-5F, -0x1.1c088ep-4F,
     0.00100F},
    {0x1.63818ep-2F, 0x1.55e13p-2F, 0x1.c6edcap-1F, -0x1.2fc57ep-2F,
     -0x1.93bb7ap-3F, 0x1.51e808p-3F, 0x1.ed7f2ep-6F, -0x1.de87b8p-3F,
     0.00082F},
    {0x1.a3e596p-2F, 0x1.8dd822p-2F, 0x1.b2b6fep-1F, -0x1.51ca6ap-2F,
     -0x1.3d23f4p-3F, 0x1.5cb5c8p-3F, 0x1.aa47acp-9F, -0x1.43d41ap-3F,
     0.00069F},
    {0x1.e124c4p-2F, 0x1.c09b1cp-2F, 0x1.9dbc18p-1F, -0x1.6a81e4p-2F,
     -0x1.d40b7cp-4F, 0x1.5797f6p-3F, -0x1.26893ep-6F, 0x1.fc0da4p-4F,
     0.00060F},
    {0x1.1ff862p-1F, 0x1.0502ccp-1F, 0x1.7af0a6p-1F, -0x1.825b82p-2F,
     -0x1.bd55aep-5F, 0x1.3a6c24p-3F, -0x1.64b08cp-5F, -0x1.6de276p-5F,
     0.00211F},
    {0x1.5fe81ep-1F, 0x1.31487cp-1F, 0x1.49f91ap-1F, -0x1.897f38p-2F,
     0x1.d492ecp-7F, 0x1.e9d0dcp-4F, -0x1.f8f19p-5F, -0x1.da7aa2p-7F, 0.00176F},
    {0x1.9c6f1ep-1F, 0x1.5590bep-1F, 0x1.1c228ap-1F, -0x1.7b1aa6p-2F,
     0x1.fbdfc8p-5F, 0x1.4ffdd4p-4F, -0x1.01b422p-4F, 0x1.24c1e6p-7F, 0.00154F},
    {0x1.e1017p-1F, 0x1.784ec4p-1F, 0x1.d6d888p-2F, -0x1.5a0f76p-2F,
     0x1.85975cp-4F, 0x1.5e60a4p-5F, -0x1.b2014ap-5F, 0x1.980b14p-7F, 0.00139F},
    {0x1.1e8848p0F, 0x1.9d583cp-1F, 0x1.649a3p-2F, -0x1.1fe3d4p-2F,
     0x1.c6339p-4F, 0x1.12d17p-8F, -0x1.0b8f1cp-5F, 0x1.2f804ap-6F, 0.00510F},
    {0x1.5d2bf2p0F, 0x1.c12e5p-1F, 0x1.d7b906p-3F, -0x1.9dd86ep-3F,
     0x1.9ba89ep-4F, -0x1.54f08ep-6F, -0x1.4ef546p-7F, 0x1.69554ap-7F,
     0.00230F},
    {0x1.9c3ad4p0F, 0x1.d8adb6p-1F, 0x1.2e7df6p-3F, -0x1.1742c2p-3F,
     0x1.39f79p-4F, -0x1.9ea52p-6F, 0x1.10b796p-10F, 0x1.0e6d2p-8F, 0.00208F},
    {0x1.ddedd2p0F, 0x1.e818aap-1F, 0x1.7587d6p-4F, -0x1.641778p-4F,
     0x1.adea1cp-5F, -0x1.58dff4p-6F, 0x1.2bc1ecp-8F, 0x1.4fe30cp-11F,
     0.00105F},
    {0x1.21307ap1F, 0x1.f4f44cp-1F, 0x1.5da66ep-5F, -0x1.561b5ep-5F,
     0x1.b45bd2p-6F, -0x1.8dc178p-7F, 0x1.01fb8ap-8F, -0x1.7b818cp-11F,
     0.00203F},
    {0x1.5f7744p1F, 0x1.fbcc22p-1F, 0x1.0bdcecp-6F, -0x1.09aa0cp-6F,
     0x1.5c6154p-7F, -0x1.50da0cp-8F, 0x1.f98812p-10F, -0x1.1e9a7ep-11F,
     0.00100F},
    {0x1.a05aeap1F, 0x1.fe78a6p-1F, 0x1.86c476p-8F, -0x1.8599c6p-8F,
     0x1.022afap-8F, -0x1.fe2428p-10F, 0x1.91cfc8p-11F, -0x1.fe5adep-13F,
     0.00026F},
    {0x1.e0246ep1F, 0x1.ff6f6ap-1F, 0x1.210332p-9F, -0x1.20b19p-9F,
     0x1.800ceep-10F, -0x1.7e5e34p-11F, 0x1.3246d6p-12F, -0x1.8fa1b2p-14F,
     0.00013F},
    {0x1.20347ap2F, 0x1.ffdfdcp-1F, 0x1.011948p-11F, -0x1.010926p-11F,
     0x1.563046p-12F, -0x1.55d07ep-13F, 0x1.1c907p-14F, -0x1.7b3f7cp-16F,
     0.00139F},
    {0x1.5fe8bep2F, 0x1.fffb9cp-1F, 0x1.190054p-14F, -0x1.18fd5ap-14F,
     0x1.763b0ap-15F, -0x1.764584p-16F, 0x1.382ff4p-17F, -0x1.9dfa88p-19F,
     0.00013F},
    {0x1.9fef28p2F, 0x1.ffff68p-1F, 0x1.30017ep-17F, -0x1.300098p-17F,
     0x1.94e6c2p-18F, -0x1.94fa82p-19F, 0x1.51eafp-20F, -0x1.c0ad18p-22F,
     0.00002F},
    {0x1.e0d5c4p2F, 0x1.ffffecp-1F, 0x1.40018p-20F, -0x1.4002b4p-20F,
     0x1.aa3daap-21F, -0x1.a9dcbap-22F, 0x1.636a76p-23F, -0x1.e4c044p-25F,
     0.00002F},
    {0x1.154246p3F, 0x1.fffffep-1F, 0x1.ffdp-24F, -0x1.fee2acp-24F,
     0x1.56e31p-24F, -0x1.62874p-25F, 0x1.11dcfep-26F, -0x1.b6ecbcp-29F,
     0.00007F}};

// Twice what was measured and a little more.
constexpr float NearOf(float measured) {
  return std::max(2.2F * measured, 0.0025F) * 0x1p-23F;
}

constexpr TanhTable MakeTanhTable() {
  TanhTable table = {};
  std::size_t i = std::bit_cast<std::uint32_t>(kTanhLeast) >> kTanhPieceBits;
  for (const Piece& piece : kPieces) {
    const std::size_t at = i++ % kTanhPieces;
    table.centre[at] = piece.centre;
    table.value[at] = piece.value;
    table.slope[at] = piece.slope;
    table.second[at] = piece.second;
    table.third[at] = piece.third;
    table.fourth[at] = piece.fourth;
    table.fifth[at] = piece.fifth;
    table.sixth[at] = piece.sixth;
    table.near[at] = NearOf(piece.measured);
  }
  return table;
}

// 2^(i / 128).
constexpr double kRootNumbers[kRoots / 4][4] = {
    {0x1p0, 0x1.0163da9fb3335p0, 0x1.02c9a3e778061p0, 0x1.04315e86e7f85p0},
    {0x1.059b0d3158574p0, 0x1.0706b29ddf6dep0, 0x1.0874518759bc8p0,
     0x1.09e3ecac6f383p0},
    {0x1.0b5586cf9890fp0, 0x1.0cc922b7247f7p0, 0x1.0e3ec32d3d1a2p0,
     0x1.0fb66affed31bp0},
    {0x1.11301d0125b51p0, 0x1.12abdc06c31ccp0, 0x1.1429aaea92dep0,
     0x1.15a98c8a58e51p0},
    {0x1.172b83c7d517bp0, 0x1.18af9388c8deap0, 0x1.1a35beb6fcb75p0,
     0x1.1bbe084045cd4p0},
    {0x1.1d4873168b9aap0, 0x1.1ed5022fcd91dp0, 0x1.2063b88628cd6p0,
     0x1.21f49917ddc96p0},
    {0x1.2387a6e756238p0, 0x1.251ce4fb2a63fp0, 0x1.26b4565e27cddp0,
     0x1.284dfe1f56381p0},
    {0x1.29e9df51fdee1p0, 0x1.2b87fd0dad99p0, 0x1.2d285a6e4030bp0,
     0x1.2ecafa93e2f56p0},
    {0x1.306fe0a31b715p0, 0x1.32170fc4cd831p0, 0x1.33c08b26416ffp0,
     0x1.356c55f929ff1p0},
    {0x1.371a7373aa9cbp0, 0x1.38cae6d05d866p0, 0x1.3a7db34e59ff7p0,
     0x1.3c32dc313a8e5p0},
    {0x1.3dea64c123422p0, 0x1.3fa4504ac801cp0, 0x1.4160a21f72e2ap0,
     0x1.431f5d950a897p0},
    {0x1.44e086061892dp0, 0x1.46a41ed1d0057p0, 0x1.486a2b5c13cdp0,
     0x1.4a32af0d7d3dep0},
    {0x1.4bfdad5362a27p0, 0x1.4dcb299fddd0dp0, 0x1.4f9b2769d2ca7p0,
     0x1.516daa2cf6642p0},
    {0x1.5342b569d4f82p0, 0x1.551a4ca5d920fp0, 0x1.56f4736b527dap0,
     0x1.58d12d497c7fdp0},
    {0x1.5ab07dd485429p0, 0x1.5c9268a5946b7p0, 0x1.5e76f15ad2148p0,
     0x1.605e1b976dc09p0},
    {0x1.6247eb03a5585p0, 0x1.6434634ccc32p0, 0x1.6623882552225p0,
     0x1.68155d44ca973p0},
    {0x1.6a09e667f3bcdp0, 0x1.6c012750bdabfp0, 0x1.6dfb23c651a2fp0,
     0x1.6ff7df9519484p0},
    {0x1.71f75e8ec5f74p0, 0x1.73f9a48a58174p0, 0x1.75feb564267c9p0,
     0x1.780694fde5d3fp0},
    {0x1.7a11473eb0187p0, 0x1.7c1ed0130c132p0, 0x1.7e2f336cf4e62p0,
     0x1.80427543e1a12p0},
    {0x1.82589994cce13p0, 0x1.8471a4623c7adp0, 0x1.868d99b4492edp0,
     0x1.88ac7d98a6699p0},
    {0x1.8ace5422aa0dbp0, 0x1.8cf3216b5448cp0, 0x1.8f1ae99157736p0,
     0x1.9145b0b91ffc6p0},
    {0x1.93737b0cdc5e5p0, 0x1.95a44cbc8520fp0, 0x1.97d829fde4e5p0,
     0x1.9a0f170ca07bap0},
    {0x1.9c49182a3f09p0, 0x1.9e86319e32323p0, 0x1.a0c667b5de565p0,
     0x1.a309bec4a2d33p0},
    {0x1.a5503b23e255dp0, 0x1.a799e1330b358p0, 0x1.a9e6b5579fdbfp0,
     0x1.ac36bbfd3f37ap0},
    {0x1.ae89f995ad3adp0, 0x1.b0e07298db666p0, 0x1.b33a2b84f15fbp0,
     0x1.b59728de5593ap0},
    {0x1.b7f76f2fb5e47p0, 0x1.ba5b030a1064ap0, 0x1.bcc1e904bc1d2p0,
     0x1.bf2c25bd71e09p0},
    {0x1.c199bdd85529cp0, 0x1.c40ab5fffd07ap0, 0x1.c67f12e57d14bp0,
     0x1.c8f6d9406e7b5p0},
    {0x1.cb720dcef9069p0, 0x1.cdf0b555dc3fap0, 0x1.d072d4a07897cp0,
     0x1.d2f87080d89f2p0},
    {0x1.d5818dcfba487p0, 0x1.d80e316c98398p0, 0x1.da9e603db3285p0,
     0x1.dd321f301b46p0},
    {0x1.dfc97337b9b5fp0, 0x1.e264614f5a129p0, 0x1.e502ee78b3ff6p0,
     0x1.e7a51fbc74c83p0},
    {0x1.ea4afa2a490dap0, 0x1.ecf482d8e67f1p0, 0x1.efa1bee615a27p0,
     0x1.f252b376bba97p0},
    {0x1.f50765b6e454p0, 0x1.f7bfdad9cbe14p0, 0x1.fa7c1819e90d8p0,
     0x1.fd3c22b8f71f1p0}};
constexpr double RootOf(std::size_t i) { return kRootNumbers[i / 4][i % 4]; }

constexpr RootTable MakeRootTable() {
  RootTable table = {};
  for (std::size_t i = 0; i < kRoots; ++i) {
    table.high[i] = static_cast<float>(RootOf(i));
    table.low[i] = static_cast<float>(RootOf(i) - table.high[i]);
  }
  return table;
}
}  // namespace

constinit const TanhTable kTanhTable = MakeTanhTable();
constinit const RootTable kRootTable = MakeRootTable();

}  // namespace tjit
