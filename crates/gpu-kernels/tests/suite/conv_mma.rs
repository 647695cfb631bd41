//! Convolutions and their gradients by tensor cores: the reference's bits where no sum is rounded,
//! and the same bits with every tile where some are.

use crate::backend::{Device, Interpreted};
use elinvar_conformance::compare::bits;
use elinvar_conformance::equal::{Call, Operand};
use elinvar_core::{DType, ErrorKind, HostData, HostTensor, Layout, Precision, Shape};
use elinvar_gpu_kernels::ComputeUnits;
use elinvar_gpu_kernels::conv::{ConvCandidate, ConvPath, TensorCores, WorkgroupLimits};
use elinvar_kernel::ir::MmaShape;
use elinvar_ops::backend::Conv;
use elinvar_reference::Reference;

/// A device with tensor cores for a type, and so many bytes of shared memory.
fn device(dtype: DType, shared: u32) -> Device {
    let terms = if dtype == DType::F32 { 8 } else { 16 };
    let unit = MmaShape { elem: dtype.into(), shape: [16, 16, terms] };
    let limits =
        WorkgroupLimits { invocations: 1024, shared, cp_async: true, compute_units: ComputeUnits::default() };
    Device { conv: Some(ConvPath::TensorCore(TensorCores { unit, lanes: 32, limits })), ..Device::default() }
}

/// Numbers of a shape, with the axis of channels (the second) as the last one in memory if `last`.
fn operand(dtype: DType, dims: &[usize], last: bool, number: &dyn Fn(usize) -> f32) -> Operand {
    let len: usize = dims.iter().product();
    let each = (0..len).map(number);
    let data = match dtype {
        DType::F16 => HostData::F16(each.map(half::f16::from_f32).collect()),
        DType::BF16 => HostData::BF16(each.map(half::bf16::from_f32).collect()),
        _ => HostData::F32(each.collect()),
    };
    let plain = |dims: &[usize]| Layout::contiguous(Shape::new(dims).expect("small"));
    if !last {
        return Operand { data, layout: plain(dims) };
    }
    let turned = [&dims[..1], &dims[2..], &dims[1..2]].concat();
    let end = dims.len() - 1;
    let axes = [vec![0, end], (1..end).collect()].concat();
    Operand { data, layout: plain(&turned).permute(&axes) }
}

struct Case {
    c: Conv,
    /// x and w, and the spatial sizes of y.
    x: Vec<usize>,
    w: Vec<usize>,
    out: Vec<usize>,
}

fn case(options: [&[usize]; 3], groups: usize, x: &[usize], w: &[usize], out: &[usize]) -> Case {
    let [stride, padding, dilation] = options.map(<[usize]>::to_vec);
    let c = Conv { stride, padding, dilation, groups, precision: Precision::Fast };
    Case { c, x: x.to_vec(), w: w.to_vec(), out: out.to_vec() }
}

/// The convolution with a bias of its own for each element, and both gradients.
fn calls(case: &Case, dtype: DType, last: bool, number: &dyn Fn(usize) -> f32) -> [Call; 3] {
    let Case { c, x, w, out } = case;
    let y = [&[x[0], w[0]], &out[..]].concat();
    let of = |dims: &[usize], seed: usize| operand(dtype, dims, last, &|i| number(i + 3 * seed));
    let (g, bias) = (of(&y, 3), Some(of(&y, 4)));
    let (x, w) = (of(x, 1), of(w, 2));
    let (spatial, taps) = (case.x[2..].to_vec(), case.w[2..].to_vec());
    [
        Call::Conv { c: c.clone(), x: x.clone(), w: w.clone(), out: out.clone(), bias },
        Call::ConvInputGrad { c: c.clone(), g: g.clone(), w, spatial },
        Call::ConvWeightGrad { c: c.clone(), x, g, taps },
    ]
}

fn run(call: &Call, device: &Device) -> HostTensor {
    call.run::<Interpreted>(device).unwrap_or_else(|e| panic!("{call:?}: {e}")).remove(0)
}

/// Whole numbers whose products and sums are exact.
fn whole(i: usize) -> f32 {
    ((i * 7 + i / 11) % 9) as f32 - 4.0
}

fn cases() -> Vec<Case> {
    vec![
        case([&[1, 1], &[1, 1], &[1, 1]], 1, &[2, 16, 6, 5], &[24, 16, 3, 3], &[6, 5]),
        // Channels, filters and positions that are no multiples of anything.
        case([&[2, 1], &[1, 2], &[1, 2]], 1, &[1, 11, 7, 6], &[9, 11, 3, 2], &[4, 8]),
        case([&[1, 1], &[0, 0], &[1, 1]], 2, &[2, 16, 4, 4], &[32, 8, 1, 1], &[4, 4]),
        case([&[2], &[3], &[2]], 3, &[2, 27, 19], &[30, 9, 4], &[10]),
        case([&[1, 2, 1], &[1, 0, 1], &[1, 1, 1]], 1, &[1, 8, 3, 4, 3], &[8, 8, 2, 2, 3], &[4, 2, 3]),
        // Many positions: the gradient by w takes its terms in pieces.
        case([&[1, 1], &[1, 1], &[1, 1]], 1, &[2, 8, 34, 33], &[8, 8, 3, 3], &[34, 33]),
    ]
}

#[test]
fn whole_numbers_are_exact() {
    for (number, case) in cases().iter().enumerate() {
        for (round, dtype) in [DType::BF16, DType::F16, DType::F32].into_iter().enumerate() {
            // What takes long is done once.
            if case.x[2] == 34 && dtype != DType::BF16 {
                continue;
            }
            let last = (number + round) % 2 == 0;
            for call in calls(case, dtype, last, &whole) {
                let got = run(&call, &device(dtype, 48 << 10));
                let want = call.run::<Reference>(&Default::default()).expect("it runs").remove(0);
                bits(&got, &want).unwrap_or_else(|m| panic!("{call:?}: {m}"));
            }
        }
    }
}

/// Each way that a device may try gives the same bits; an exact one, those of the reference.
#[test]
fn ways_change_no_bit() {
    let uneven = |i: usize| ((i * 37 % 101) as f32 - 50.0) * 0.37;
    let limits = WorkgroupLimits {
        invocations: 1024,
        shared: 99 << 10,
        cp_async: true,
        compute_units: ComputeUnits::default(),
    };
    let exactly = Device { conv: Some(ConvPath::Auto(limits)), ..Device::default() };
    // With more terms than a chunk has, and with strides.
    let long = case([&[1, 1], &[1, 1], &[1, 1]], 1, &[1, 64, 5, 4], &[40, 64, 3, 3], &[5, 4]);
    let sparse = case([&[2, 1], &[1, 2], &[1, 2]], 1, &[2, 16, 7, 6], &[24, 16, 3, 2], &[4, 8]);
    for (case, dtype, by_units) in
        [(&long, DType::F32, false), (&sparse, DType::BF16, false), (&sparse, DType::F16, true)]
    {
        let device = if by_units { device(dtype, 99 << 10) } else { exactly.clone() };
        for call in calls(case, dtype, false, &uneven) {
            let want = if by_units {
                run(&call, &device)
            } else {
                call.run::<Reference>(&Default::default()).expect("it runs").remove(0)
            };
            let mut count = 0;
            for way in ConvCandidate::all() {
                match call.run::<Interpreted>(&Device { way: Some(way), ..device.clone() }) {
                    Ok(got) => {
                        bits(&got[0], &want).unwrap_or_else(|m| panic!("{way:?}: {call:?}: {m}"));
                        count += 1;
                    }
                    Err(e) => assert_eq!(e.kind(), ErrorKind::Unsupported, "{way:?}: {call:?}: {e}"),
                }
            }
            println!("{count} ways: {dtype} {:?}", case.c);
            assert!(count >= if by_units { 3 } else { 4 }, "{count} ways: {call:?}");
        }
    }
}

/// Also where sums are rounded on the way, tiles and layouts of operands change nothing.
#[test]
fn tiles_change_no_bit() {
    let uneven = |i: usize| ((i * 37 % 101) as f32 - 50.0) * 0.37;
    for case in &cases()[..4] {
        let dtype = DType::BF16;
        let all = [48 << 10, 20 << 10, 12 << 10].map(|shared| {
            let device = device(dtype, shared);
            calls(case, dtype, false, &uneven).map(|call| run(&call, &device))
        });
        for other in &all[1..] {
            for (a, b) in all[0].iter().zip(other) {
                bits(a, b).unwrap_or_else(|m| panic!("{:?}: {m}", case.c));
            }
        }
    }
}
