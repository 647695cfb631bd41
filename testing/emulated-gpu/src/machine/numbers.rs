//! Numbers and their bits, the ranges of conversions, and functions that a device computes
//! approximately.

/// The NaN that f32 arithmetic returns.
pub const NAN: u32 = 0x7fff_ffff;

pub fn f(bits: u32) -> f32 {
    f32::from_bits(bits)
}
pub fn bits(x: f32) -> u32 {
    if x.is_nan() { NAN } else { x.to_bits() }
}
/// What an integer is where a float has none, on devices that leave it open.
pub const OPEN: u32 = 0x5bad_c0de;
pub fn d(bits: u64) -> f64 {
    f64::from_bits(bits)
}
/// 2^x, rounded to nearest: a device is within two units in the last place. Subnormal results
/// are 0.
pub fn exp2(x: f32) -> f32 {
    let (x, least) = (f64::from(x), f64::from(f32::MIN_POSITIVE));
    let whole = x.clamp(-200.0, 200.0).floor();
    let t = (x - whole) * std::f64::consts::LN_2;
    let (mut power, mut term) = (1.0, 1.0);
    for n in 1..24 {
        term *= t / f64::from(n);
        power += term;
    }
    let all = power * 2f64.powi(whole as i32);
    match x {
        x if x > 130.0 => f32::INFINITY,
        x if x < -126.0 || all < least => 0.0,
        _ => all as f32,
    }
}
/// Wrong by a unit in the last place, now and then in either direction, as `v_sqrt_f32` may be.
pub fn near_root(x: f32) -> f32 {
    let root = x.sqrt();
    match x.to_bits() % 3 {
        _ if !(1e-19..1e19).contains(&root) => root,
        0 => root,
        1 => root.next_up(),
        _ => root.next_down(),
    }
}
/// Right in its first 29 bits or so, as `v_sqrt_f64` is.
pub fn near_root64(x: f64) -> f64 {
    let root = x.sqrt();
    if root.is_finite() && root > 0.0 {
        f64::from_bits(root.to_bits() ^ (x.to_bits() >> 7 & 0xff_ffff))
    } else {
        root
    }
}
/// Floats above the first and below the second, cut, are integers of a type.
pub type Range = (f64, f64);
pub const SIGNED32: Range = (-2_147_483_649.0, 2_147_483_648.0);
pub const UNSIGNED32: Range = (-1.0, 4_294_967_296.0);
// Below -2^63 the next one is far away.
pub const SIGNED64: Range = (-9_223_372_036_854_777_856.0, 9_223_372_036_854_775_808.0);
pub const UNSIGNED64: Range = (-1.0, 18_446_744_073_709_551_616.0);
pub fn fits(x: f64, (above, below): Range) -> bool {
    x > above && x < below
}
