//! Storage floats by their definitions: values, ties, overflow.

use crate::{DType, Element, Float8, HostData, Storage};

/// The value of a code, from its definition alone: sign, exponent, mantissa as numbers of f64.
fn defined(d: DType, code: u32) -> f64 {
    let f = d.format().unwrap();
    let mantissa = f64::from(code & ((1 << f.mantissa) - 1)) / f64::from(1 << f.mantissa);
    let exponent = (code >> f.mantissa) & ((1 << f.exponent) - 1);
    let is_last = exponent == (1 << f.exponent) - 1;
    let sign = if code >> (f.exponent + f.mantissa) == 1 { -1.0 } else { 1.0 };
    let scale = |e: u32| 2f64.powi(e as i32 - f.bias as i32);
    sign * match (f.infinities, exponent) {
        (true, _) if is_last => {
            if mantissa == 0.0 {
                f64::INFINITY
            } else {
                f64::NAN
            }
        }
        (false, _) if is_last && code & ((1 << f.mantissa) - 1) == (1 << f.mantissa) - 1 => f64::NAN,
        (_, 0) => mantissa * scale(1),
        (_, e) => (1.0 + mantissa) * scale(e),
    }
}
/// Value and code by the Rust type.
fn value(d: DType, code: u32) -> f64 {
    let bytes = code.to_le_bytes();
    let data = HostData::from_le_bytes(d, &bytes[..d.size()]).unwrap();
    match_storage!(HostData data; storage v: T => { let x: T = v[0]; x.to_f64() }; _ => unreachable!(),)
}
fn code(d: DType, x: f64) -> u32 {
    match_storage!(DType d; storage T => <T as Element>::from_f64(x).to_bits().into(); _ => unreachable!(),)
}
fn code_of_f32(d: DType, x: f32) -> u32 {
    match_storage!(DType d; storage T => <T as Storage>::from_f32(x).to_bits().into(); _ => unreachable!(),)
}
fn is_same(a: f64, b: f64) -> bool {
    a.is_nan() && b.is_nan() || a.to_bits() == b.to_bits()
}

#[test]
fn every_code_is_what_its_definition_says() {
    for d in DType::STORAGE {
        let f = d.format().unwrap();
        for c in 0..1 << f.bits() {
            let want = defined(d, c);
            assert!(is_same(value(d, c), want), "{d} {c:#x}");
            assert!(is_same(f64::from(f.decode(c)), want), "{d} {c:#x}");
            if !want.is_nan() {
                assert_eq!(code(d, want), c, "{d} {want}");
                assert_eq!(f.encode(want as f32), c, "{d} {want}");
            }
        }
    }
}

#[test]
fn every_tie_goes_to_even_and_its_neighbours_to_the_nearer() {
    for d in DType::STORAGE {
        let f = d.format().unwrap();
        for c in 0..f.last_number() {
            let (low, mut high) = (defined(d, c), defined(d, c + 1));
            if high.is_infinite() {
                // What would come next.
                high = 2.0 * low - defined(d, c - 1);
            }
            let tie = (low + high) / 2.0;
            let even = if c % 2 == 0 { c } else { c + 1 };
            for (x, want) in [(low, c), (tie, even), (tie.next_up(), c + 1), (tie.next_down(), c)] {
                assert_eq!(code(d, x), want, "{d} {x:e}");
                let sign = 1 << (f.bits() - 1);
                assert_eq!(code(d, -x), want | sign, "{d} -{x:e}");
            }
            // Neighbours among f32, too.
            for (x, want) in
                [(tie as f32, even), ((tie as f32).next_up(), c + 1), ((tie as f32).next_down(), c)]
            {
                assert_eq!(code_of_f32(d, x), want, "{d} {x:e}");
                assert_eq!(f.encode(x), want, "{d} {x:e}");
            }
        }
    }
}

/// The nearest of all numbers of the format, found by looking at each; a tie goes to the even
/// code. What would come after the largest stands for overflow.
fn nearest(d: DType, x: f64) -> u32 {
    let f = d.format().unwrap();
    let sign = u32::from(x.is_sign_negative()) << (f.bits() - 1);
    if x.is_nan() {
        return f.nan() | sign;
    }
    let largest = f.overflow() - 1;
    let beyond = 2.0 * defined(d, largest) - defined(d, largest - 1);
    let away = |c: u32| (x.abs().min(beyond) - if c > largest { beyond } else { defined(d, c) }).abs();
    let near = (0..=f.overflow()).min_by(|&a, &b| away(a).total_cmp(&away(b)).then((a % 2).cmp(&(b % 2))));
    near.unwrap() | sign
}

#[test]
fn any_number_goes_to_the_nearest() {
    for d in DType::STORAGE.into_iter().filter(|d| d.size() == 1) {
        for i in 0..20_000u32 {
            // Any bits, and those of magnitudes in and around the format's range.
            let any = i.wrapping_mul(0x9e37_79b9);
            let bias = d.format().unwrap().bias;
            let inside = (any & 0x807f_ffff) | ((127 - bias - 8 + any % (2 * bias + 16)) << 23);
            for x in [any, inside].map(f32::from_bits) {
                let want = nearest(d, x.into());
                assert_eq!(code_of_f32(d, x), want, "{d} {x:e}");
                assert_eq!(code(d, x.into()), want, "{d} {x:e}");
            }
        }
    }
}

/// As `torch.tensor(x).to(torch.float8_e4m3fn)`: what rounds beyond 448 is NaN, and so is
/// infinity (c10/util/Float8_e4m3fn.h); nothing saturates.
#[test]
fn what_is_too_large_overflows() {
    let (nan, inf) = (f64::NAN, f64::INFINITY);
    let rows: [(DType, &[(f64, f64)]); 2] = [
        (
            DType::F8E4M3,
            &[
                (448.0, 448.0),
                (464.0, 448.0),
                (464.00000001, nan),
                (-465.0, nan),
                (1e300, nan),
                (inf, nan),
                (nan, nan),
            ],
        ),
        (
            DType::F8E5M2,
            &[
                (57344.0, 57344.0),
                (61439.99, 57344.0),
                (61440.0, inf),
                (-1e300, -inf),
                (-inf, -inf),
                (nan, nan),
            ],
        ),
    ];
    for (d, rows) in rows {
        for &(x, want) in rows {
            assert!(is_same(value(d, code(d, x)), want), "{d} {x}");
        }
    }
    assert_eq!([DType::F8E4M3, DType::F8E5M2].map(|d| d.format().unwrap().max()), [448.0, 57344.0]);
}

#[test]
fn names_and_sizes() {
    for &f in Float8::ALL {
        let d = f.dtype();
        assert_eq!((Float8::of(d), d.size(), DType::parse(d.name())), (Some(f), 1, Some(d)));
        assert_eq!((d.compute(), d.is_float(), d.is_int()), (DType::F32, true, false));
    }
    assert_eq!(DType::F8E4M3.epsilon(), 0.125);
    assert_eq!([DType::F16, DType::BF16].map(DType::size), [2, 2]);
}
