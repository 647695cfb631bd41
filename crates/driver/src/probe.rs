//! Arithmetic probe: what a device's arithmetic does, found out by letting it compute.
//!
//! A kernel that does one operation on many operands is emitted as if the device had everything;
//! where its results are not the processor's, the device lacks the operation, and it is built from
//! others from then on. Operands are random bits, numbers of nearby exponents (where roundings are
//! seen) and cancelling ones (where a fused fma is told from one that is not).

use crate::Slice;
use crate::loop_limit::Whole;
use elinvar_core::philox::Stream;
use elinvar_core::{Error, Result};
use elinvar_kernel::builder::{Builder, Val};
use elinvar_kernel::interp::{self, Launch};
use elinvar_kernel::ir::{Access, Binary, Compare, Constant, Elem, Scalar, Unary};

/// Operands of each kind.
const OPERANDS_PER_KIND: usize = 1024;

/// What is tried.
#[derive(Clone, Copy)]
enum Operation {
    Fma,
    Division,
    Root,
    /// 0 + x
    FromZero,
    /// Sums and products that a compiler could contract or reorder.
    Rewritten(Rewrite),
    /// Comparisons, magnitude and negation of subnormal numbers.
    Subnormals,
}

/// What compilers do to sums and products of numbers, if they take them for real ones.
#[derive(Clone, Copy)]
enum Rewrite {
    /// a b + c as one operation.
    Contract,
    /// (a + b) - a as b.
    Cancel,
    /// a b + a c as a (b + c).
    Factor,
    /// (3 a) 5 as 15 a.
    FoldProduct,
    /// (a + 3) + 0.1 as a + 3.1.
    FoldSum,
}

impl Rewrite {
    const ALL: [Rewrite; 5] =
        [Rewrite::Contract, Rewrite::Cancel, Rewrite::Factor, Rewrite::FoldProduct, Rewrite::FoldSum];

    fn kernel<'k>(self, [a, b, c]: [Val<'k>; 3]) -> Val<'k> {
        let number = |x: f64| a.builder().constant(Constant::float(a.scalar(), x));
        match self {
            Rewrite::Contract => a * b + c,
            Rewrite::Cancel => (a + b) - a,
            Rewrite::Factor => a * b + a * c,
            Rewrite::FoldProduct => (a * number(3.1)) * number(5.3),
            Rewrite::FoldSum => (a + number(3.1)) + number(0.1),
        }
    }
    fn want(self, [a, b, c]: [f32; 3]) -> f32 {
        match self {
            Rewrite::Contract => a * b + c,
            Rewrite::Cancel => (a + b) - a,
            Rewrite::Factor => a * b + a * c,
            Rewrite::FoldProduct => (a * 3.1) * 5.3,
            Rewrite::FoldSum => (a + 3.1) + 0.1,
        }
    }
}

/// What a device's arithmetic was found to do; pairs are of f32 and of f64.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arithmetic {
    /// Does fma round once?
    pub fused: bool,
    /// Are quotients correctly rounded?
    pub division: [bool; 2],
    /// Are square roots?
    pub square_root: [bool; 2],
    /// Do comparisons, magnitude and negation know subnormal numbers?
    pub compares_subnormals: [bool; 2],
    /// Do sums, differences and products keep them?
    pub adds_subnormals: [bool; 2],
    /// Are roundings to whole numbers right, also of them, and the signs of zeros?
    pub rounds_subnormals: [bool; 2],
    /// Does fma keep them, or is it built anyway?
    pub fuses_subnormals: [bool; 2],
    /// Do conversions between f32 and f64?
    pub converts_subnormals: bool,
    /// Is 0 + -0 what it should be?
    pub keeps_zeros: bool,
}

/// What a device does.
///
/// # Errors
/// `OutOfMemory`, `DeviceLost`; `Unsupported` if it refuses a kernel.
pub async fn arithmetic<D: Whole>(device: &D) -> Result<Arithmetic> {
    let mut found = Arithmetic {
        fused: true,
        division: [true; 2],
        square_root: [true; 2],
        compares_subnormals: [true; 2],
        adds_subnormals: [true; 2],
        rounds_subnormals: [true; 2],
        fuses_subnormals: [true; 2],
        converts_subnormals: true,
        keeps_zeros: true,
    };
    for (i, (elem, has)) in [(Elem::F32, true), (Elem::F64, device.info().f64)].into_iter().enumerate() {
        if !has {
            continue;
        }
        found.fused &= right(device, elem, Operation::Fma).await?;
        found.division[i] &= right(device, elem, Operation::Division).await?;
        found.square_root[i] &= right(device, elem, Operation::Root).await?;
        found.compares_subnormals[i] &= right(device, elem, Operation::Subnormals).await?;
        found.keeps_zeros &= right(device, elem, Operation::FromZero).await?;
        let kept = tiny(device, elem).await?;
        found.adds_subnormals[i] &= kept[..3].iter().all(|k| *k);
        found.rounds_subnormals[i] &= kept[3..7].iter().all(|k| *k);
        // One that is not fused is built anyway.
        found.fuses_subnormals[i] &= kept[7] || !found.fused;
        found.division[i] &= kept[8];
        found.square_root[i] &= kept[9];
        found.converts_subnormals &= kept[10..].iter().all(|k| *k);
    }
    Ok(found)
}

/// Is a fused multiply-add right that is emitted as the device's kernels now are?
///
/// # Errors
/// As [`arithmetic`].
#[cfg(feature = "webgpu")]
pub async fn fuses<D: Whole>(device: &D) -> Result<bool> {
    right(device, Elem::F32, Operation::Fma).await
}

/// Are sums and products contracted or reordered, so that they are not rounded one by one?
///
/// # Errors
/// As [`arithmetic`].
pub async fn contracts<D: Whole>(device: &D) -> Result<bool> {
    for rewrite in Rewrite::ALL {
        if !right(device, Elem::F32, Operation::Rewritten(rewrite)).await? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Are these operations right where operands or results are subnormal? Sum, difference, product,
/// four roundings to whole numbers, fma, quotient, square root; of f32 where there is f64, the
/// conversions to it and from it.
///
/// One kernel; the results of each operation stand together.
async fn tiny<D: Whole>(device: &D, elem: Elem) -> Result<Vec<bool>> {
    let wide = elem == Elem::F64;
    let converts = !wide && device.info().f64;
    let s = elem.scalar();
    let k = Builder::new("probe_subnormals", [64, 1, 1]);
    let x = ["a", "b", "c"].map(|name| k.buffer(name, elem, Access::Read));
    let y = k.buffer("y", elem, Access::Write);
    let i = k.global_id(0);
    let [a, b, c]: [Val<'_>; 3] = x.map(|p| k.load(p, i, 1));
    let mut results = vec![a + b, a - b, a * b];
    results.extend([Unary::Floor, Unary::Ceil, Unary::Trunc, Unary::Round].map(|op| a.unary(op)));
    results.extend([a.fma(b, c), a.binary(Binary::Div, b), a.unary(Unary::Abs).unary(Unary::Sqrt)]);
    if converts {
        // Of a subnormal a normal number of f64, and the other way.
        let [up, down] = [200, -200].map(|n| k.constant(Constant::float(Scalar::F64, 2f64.powi(n))));
        results.push((a.to(Scalar::F64) * up).to(s));
        results.push((b.to(Scalar::F64) * up * down).to(s));
    }
    for (at, result) in results.iter().enumerate() {
        k.store(y, i + k.u32((at * OPERANDS_PER_KIND) as u32), *result);
    }
    let (count, kernel) = (results.len(), k.finish());
    let launch = Launch { groups: [OPERANDS_PER_KIND as u32 / 64, 1, 1], params: Vec::new() };
    // What they should be, the interpreter knows.
    let zeros = |rows: usize| interp::Memory::zeros(elem, rows * OPERANDS_PER_KIND);
    let mut cells = tiny_operands(wide).map(|cells| interp::Memory { elem, cells }).to_vec();
    cells.push(zeros(count));
    interp::run(&kernel, &launch, &mut cells).map_err(|e| Error::unsupported(e.to_string()))?;

    let module = device.compile_whole(&kernel)?;
    let size = elem.size() as usize;
    let lens = cells.iter().map(|m| (m.cells.len() * size) as u64);
    let memory = lens.clone().map(|len| device.allocate(len)).collect::<Result<Vec<_>>>()?;
    let slices: Vec<Slice<'_, D>> =
        memory.iter().zip(lens).map(|(memory, len)| Slice { memory, offset: 0, len }).collect();
    for (slice, m) in slices.iter().zip(&cells).take(3) {
        let bytes = m.cells.iter().flat_map(|bits| bits.to_le_bytes().into_iter().take(size));
        device.write(*slice, &bytes.collect::<Vec<u8>>())?;
    }
    device.launch_whole(&module, &slices, &launch, None)?;
    let mut got = vec![0; count * OPERANDS_PER_KIND * size];
    device.fetch(slices[3], &mut got).await?;
    let same = |i: usize| {
        let want = cells[3].cells[i];
        let nan = (want << (64 - s.bits())) & (u64::MAX >> 1)
            > Constant::float(s, f64::INFINITY).bits << (64 - s.bits());
        nan || got[i * size..][..size] == want.to_le_bytes()[..size]
    };
    let rows = (0..count).map(|at| at * OPERANDS_PER_KIND..(at + 1) * OPERANDS_PER_KIND);
    Ok(rows.map(|mut row| row.all(same)).collect())
}

/// Bits of numbers of which most are subnormal, or become so: of all sizes below the normal ones,
/// somewhat above them, and of the size of their quotients. Some of the first are zeros, or of all
/// sizes with places after the point, which roundings to whole numbers must know, too.
fn tiny_operands(wide: bool) -> [Vec<u64>; 3] {
    let (fraction, bias) = if wide { (52, 1023) } else { (23, 127) };
    [1, 2, 3].map(|stream| {
        let word = |i: usize| Stream { seed: 2, stream }.word64(i as u64);
        (0..OPERANDS_PER_KIND)
            .map(|i| {
                let (bits, kind) = (word(2 * i), word(2 * i + 1));
                let sign = (kind >> 63) << if wide { 63 } else { 31 };
                let fractions = bits & ((1 << fraction) - 1);
                let exponent = match kind % 5 {
                    0 | 1 => 0,
                    2 => 1 + kind / 5 % 30,
                    3 => bias / 2 + kind / 5 % 20,
                    _ => bias - 30 + kind / 5 % 40,
                };
                let shift = if exponent == 0 { kind / 5 % fraction } else { 0 };
                let i = i as u64;
                sign | match (stream, i % 16) {
                    (1, 8) => 0,
                    (1, 12) => ((bias + i / 16 % fraction) << fraction) | fractions,
                    _ => exponent << fraction | fractions >> shift,
                }
            })
            .collect()
    })
}

/// Does an operation give the processor's bits? Subnormal numbers are left out: see [`tiny`].
async fn right<D: Whole>(device: &D, elem: Elem, operation: Operation) -> Result<bool> {
    let k = Builder::new("probe", [64, 1, 1]);
    let x = ["a", "b", "c"].map(|name| k.buffer(name, elem, Access::Read));
    let y = k.buffer("y", elem, Access::Write);
    let i = k.global_id(0);
    let [a, b, c]: [Val<'_>; 3] = x.map(|p| k.load(p, i, 1));
    // Each reads all three, so that all kernels have the same buffers.
    k.store(
        y,
        i,
        match operation {
            Operation::Fma => a.fma(b, c),
            Operation::Division => a.binary(Binary::Div, b),
            Operation::Root => a.unary(Unary::Sqrt),
            Operation::FromZero => a.like(0) + a,
            Operation::Rewritten(rewrite) => rewrite.kernel([a, b, c]),
            Operation::Subnormals => {
                // A digit for each question, as of a number that no device flushes.
                let zero = a.like(0);
                let digits = [
                    a.lt(b),
                    a.eq(zero),
                    a.lt(zero),
                    a.compare(Compare::Ge, b),
                    same_bits(a.unary(Unary::Abs), b),
                    same_bits(b.unary(Unary::Neg), c),
                ];
                digits.into_iter().fold(k.u32(0), |n, d| n + n + d.to(Scalar::U32)).to(elem.scalar())
            }
        },
    );
    let module = device.compile_whole(&k.finish())?;
    let wide = elem == Elem::F64;
    let mut operands: [Vec<f64>; 3] = operands(wide);
    if matches!(operation, Operation::Subnormals) {
        // Most of them below the normal numbers; b is the magnitude, and c that below 0.
        let least = if wide { f64::MIN_POSITIVE } else { f64::from(f32::MIN_POSITIVE) };
        for (i, a) in operands[0].iter_mut().enumerate() {
            let small = least * ((i % 61) as f64 / 64.0) * if i % 2 == 0 { 1.0 } else { -1.0 };
            *a = if i % 4 < 3 { small } else { *a };
        }
        let magnitude: Vec<f64> = operands[0].iter().map(|a| a.abs()).collect();
        operands[2] = magnitude.iter().map(|a| -a).collect();
        operands[1] = magnitude;
    }
    if matches!(operation, Operation::FromZero) {
        // The only number that 0 changes.
        operands[0].iter_mut().step_by(2).for_each(|a| *a = -0.0);
    }
    let size = elem.size() as usize;
    let bytes = |v: &[f64]| -> Vec<u8> {
        let narrow = |x: &f64| (*x as f32).to_le_bytes().to_vec();
        v.iter().flat_map(|x| if wide { x.to_le_bytes().to_vec() } else { narrow(x) }).collect()
    };
    let len = (OPERANDS_PER_KIND * size) as u64;
    let memory = (0..4).map(|_| device.allocate(len)).collect::<Result<Vec<_>>>()?;
    let slices: Vec<Slice<'_, D>> = memory.iter().map(|memory| Slice { memory, offset: 0, len }).collect();
    for (slice, v) in slices.iter().zip(&operands) {
        device.write(*slice, &bytes(v))?;
    }
    let launch = Launch { groups: [OPERANDS_PER_KIND as u32 / 64, 1, 1], params: Vec::new() };
    device.launch_whole(&module, &slices, &launch, None)?;
    let mut got = vec![0; OPERANDS_PER_KIND * size];
    device.fetch(slices[3], &mut got).await?;
    let [a, b, c] = &operands;
    Ok((0..OPERANDS_PER_KIND).all(|i| {
        let got = &got[i * size..][..size];
        if wide {
            let want = match operation {
                Operation::Fma => a[i].mul_add(b[i], c[i]),
                Operation::Division => a[i] / b[i],
                Operation::Root => a[i].sqrt(),
                Operation::FromZero => 0.0 + a[i],
                Operation::Rewritten(_) => unreachable!("tried in f32"),
                Operation::Subnormals => wanted(a[i]),
            };
            let got = f64::from_le_bytes(got.try_into().expect("eight bytes"));
            got.to_bits() == want.to_bits() || (got.is_nan() && want.is_nan()) || want.is_subnormal()
        } else {
            let [a, b, c] = [a, b, c].map(|v| v[i] as f32);
            let want = match operation {
                Operation::Fma => a.mul_add(b, c),
                Operation::Division => a / b,
                Operation::Root => a.sqrt(),
                Operation::FromZero => 0.0 + a,
                Operation::Rewritten(rewrite) => rewrite.want([a, b, c]),
                Operation::Subnormals => wanted(f64::from(a)) as f32,
            };
            let got = f32::from_le_bytes(got.try_into().expect("four bytes"));
            got.to_bits() == want.to_bits() || (got.is_nan() && want.is_nan()) || want.is_subnormal()
        }
    }))
}

fn same_bits<'k>(x: Val<'k>, y: Val<'k>) -> Val<'k> {
    let word = if x.scalar() == Scalar::F64 { Scalar::U64 } else { Scalar::U32 };
    x.bitcast(word).eq(y.bitcast(word))
}

/// What [`Operation::Subnormals`] gives for a number, its magnitude, and that below 0.
fn wanted(a: f64) -> f64 {
    let b = a.abs();
    [a < b, a == 0.0, a < 0.0, a >= b, true, true].iter().fold(0.0, |n, &d| n + n + f64::from(u8::from(d)))
}

/// Three times as many numbers as are tried, normal ones of the type.
fn operands(wide: bool) -> [Vec<f64>; 3] {
    let word = |stream: u64, i: u64| Stream { seed: 1, stream }.word(i);
    // A number of a random mantissa, and an exponent within so many powers of two.
    let number = |stream: u64, i: u64, spread: i32| {
        let bits = (u64::from(word(stream, 2 * i)) << 32) | u64::from(word(stream, 2 * i + 1));
        let mantissa = 1.0 + (bits >> 12) as f64 / (1u64 << 52) as f64;
        let exponent = (bits & 0xfff) as i32 % (2 * spread + 1) - spread;
        let sign = if bits & 0x800 == 0 { 1.0 } else { -1.0 };
        let v = sign * mantissa * 2f64.powi(exponent);
        if wide { v } else { f64::from(v as f32) }
    };
    let mut all = [const { Vec::new() }; 3];
    for i in 0..OPERANDS_PER_KIND as u64 {
        let spread = if i % 2 == 0 { 40 } else { 1 };
        let (a, b) = (number(1, i, spread), number(2, i, spread));
        // One in four cancels all of the product but its last bits.
        let c = match i % 4 {
            0 if wide => -(a * b),
            0 => -f64::from(a as f32 * b as f32),
            _ => number(3, i, spread),
        };
        all[0].push(if i % 3 == 0 { a.abs() } else { a });
        all[1].push(b);
        all[2].push(if i % 3 == 0 && a < 0.0 { -c } else { c });
    }
    all
}

/// Passes that the loops of [`loop_limit`] take, if nothing ends them: more than any device is
/// known to end them after, and few enough for one invocation of a slow one.
const PROBED_PASSES: u32 = 200_000;

/// After how many passes the device ends the loops of an invocation, if it does: llvmpipe has one
/// counter for all loops of a shader, which ends at 65,535.
///
/// One loop, and loops in a loop, of which each pass computes something that no compiler knows a
/// formula for; how many there were is counted beside it.
pub async fn loop_limit<D: Whole>(device: &D) -> Result<Option<u64>> {
    let k = Builder::new("probe_loops", [1, 1, 1]);
    let y = k.buffer("y", Elem::U32, Access::Write);
    let [outer, inner] = ["outer", "inner"].map(|name| k.param(name, Scalar::U32));
    let (zero, one) = (k.u32(0), k.u32(1));
    let counted = k.for_(zero, outer, one, &[zero, one], |_, c| {
        k.for_(zero, inner, one, c, |_, c| vec![c[0] + 1, (c[1] * 1_664_525 + 1_013_904_223) ^ (c[1] >> 15)])
    });
    k.store(y, zero, counted[0]);
    k.store(y, one, counted[1]);
    let module = device.compile_whole(&k.finish())?;
    let memory = device.allocate(8)?;
    let slice = Slice { memory: &memory, offset: 0, len: 8 };
    let mut least = None;
    for shape in [[1, PROBED_PASSES], [400, PROBED_PASSES / 400]] {
        let launch = Launch { groups: [1; 3], params: shape.map(Constant::from).to_vec() };
        device.launch_whole(&module, &[slice], &launch, None)?;
        let mut got = [0; 8];
        device.fetch(slice, &mut got).await?;
        let count = u32::from_le_bytes([got[0], got[1], got[2], got[3]]);
        if count < PROBED_PASSES {
            // Of each round of the inner loop there were two passes more: that with which it ended,
            // and the outer loop's.
            let passes = count + 2 * (count / shape[1]);
            least = Some(least.map_or(passes, |l: u32| l.min(passes)));
        }
    }
    Ok(least.map(u64::from))
}

/// Are conversions between f16 and f32 right: of the one a fourth of all, and of the other numbers
/// around the places where rounding turns?
///
/// # Errors
/// As [`arithmetic`].
pub async fn halves<D: Whole>(device: &D) -> Result<bool> {
    const CODES: usize = 1 << 14;
    let k = Builder::new("probe_halves", [64, 1, 1]);
    let (h, x) = (k.buffer("h", Elem::F16, Access::Read), k.buffer("x", Elem::F32, Access::Read));
    let (up, down) = (k.buffer("up", Elem::F32, Access::Write), k.buffer("down", Elem::F16, Access::Write));
    let i = k.global_id(0);
    k.store(up, i, k.load(h, i, 1));
    k.store(down, i, k.load(x, i, 1));
    let kernel = k.finish();
    // Of four f16 in a row one, and by its number an f32: half way to the next one, or beside that.
    let near = |code: u64| -> u64 {
        let exponent = (code >> 10) & 31;
        let magnitude = (code & 0x7fff) as f32;
        // Below the normal numbers f16 are evenly spaced.
        let value = match exponent {
            0 => magnitude * 2f32.powi(-24),
            _ => (1.0 + (code & 0x3ff) as f32 / 1024.0) * 2f32.powi(exponent as i32 - 15),
        };
        let step = 2f32.powi(exponent.max(1) as i32 - 25);
        let beside = [0i32, 1, -1][(code % 3) as usize];
        let bits = (value + step * 0.5).to_bits().wrapping_add_signed(beside);
        u64::from(bits) | ((code >> 15) << 31)
    };
    let cells =
        |elem, f: &dyn Fn(u64) -> u64| interp::Memory { elem, cells: (0..CODES as u64).map(f).collect() };
    let code = |i: u64| 4 * i + i % 4;
    let given = [cells(Elem::F16, &code), cells(Elem::F32, &|i| near(code(i)))];
    let launch = Launch { groups: [CODES as u32 / 64, 1, 1], params: Vec::new() };
    let mut want = given.to_vec();
    want.extend([Elem::F32, Elem::F16].map(|elem| interp::Memory::zeros(elem, CODES)));
    interp::run(&kernel, &launch, &mut want).map_err(|e| Error::unsupported(e.to_string()))?;

    let module = device.compile_whole(&kernel)?;
    let sizes = want.iter().map(|m| (CODES as u64) * u64::from(m.elem.size()));
    let memory = sizes.clone().map(|len| device.allocate(len)).collect::<Result<Vec<_>>>()?;
    let slices: Vec<Slice<'_, D>> =
        memory.iter().zip(sizes).map(|(memory, len)| Slice { memory, offset: 0, len }).collect();
    for (slice, m) in slices.iter().zip(&given) {
        let bytes = m.cells.iter().flat_map(|c| c.to_le_bytes().into_iter().take(m.elem.size() as usize));
        device.write(*slice, &bytes.collect::<Vec<u8>>())?;
    }
    device.launch_whole(&module, &slices, &launch, None)?;
    for (slice, want) in slices.iter().zip(&want).skip(2) {
        let size = want.elem.size() as usize;
        let mut got = vec![0; slice.len as usize];
        device.fetch(*slice, &mut got).await?;
        let same =
            |i: usize| want.is_nan(i) || got[i * size..][..size] == want.cells[i].to_le_bytes()[..size];
        if !(0..CODES).all(same) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Are lanes of a subgroup of this size neighbours in the order of the local index, in each
/// workgroup of whole subgroups?
pub async fn lanes_are_neighbours<D: Whole>(device: &D, lanes: u32) -> Result<bool> {
    let threads = lanes.max(64);
    let k = Builder::new("probe_lanes", [threads, 1, 1]);
    k.subgroup(lanes);
    let y = k.buffer("y", Elem::U32, Access::Write);
    let i = k.global_id(0);
    // Every lane is told by the first, and by the last.
    let seen = [0, lanes as u8 - 1].map(|lane| k.broadcast(i, lane));
    k.store(y, i * 2, seen[0]);
    k.store(y, i * 2 + 1, seen[1]);
    let module = device.compile_whole(&k.finish())?;
    let len = u64::from(threads) * 8;
    let memory = device.allocate(len)?;
    let slice = Slice { memory: &memory, offset: 0, len };
    device.launch_whole(&module, &[slice], &Launch { groups: [1; 3], params: Vec::new() }, None)?;
    let mut got = vec![0; len as usize];
    device.fetch(slice, &mut got).await?;
    let got: Vec<u32> =
        got.chunks_exact(4).map(|c| u32::from_le_bytes(c.try_into().expect("of four"))).collect();
    let first = |i: u32| i / lanes * lanes;
    Ok((0..threads).all(|i| got[2 * i as usize..][..2] == [first(i), first(i) + lanes - 1]))
}
