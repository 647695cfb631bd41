//! The capability table: how each device runs each op, and the building blocks of training. Made by
//! running the ops, not from declarations.
//!
//! A backend implements kinds of work, and an op may be one of them or several. The table counts
//! the backend calls of an op: none (a view), one (native), or more (composed). A backend that
//! itself composes a kind of work is not detected.

use crate::compare::words;
use crate::filter::Filter;
use crate::golden::Case;
use crate::guard::caught;
use crate::sample;
use crate::training;
use crate::twist::{Twist, Twisted, TwistedDevice, Work};
use elinvar_core::{DType, ErrorKind, HostTensor, Precision, Result, Shape};
use elinvar_devices::{Any, Device, devices};
use elinvar_ops::args::Args;
use elinvar_ops::catalogue::conv::Padding;
use elinvar_ops::{Array, Backend, catalogue};
use elinvar_tensor::Tensor;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// How a backend runs an op.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Support {
    /// Layout arithmetic: no backend call.
    View,
    /// One backend call.
    Native,
    /// This many backend calls.
    Composed(usize),
    /// The backend declines.
    Unsupported,
    /// It should run and fails.
    Fails(String),
    /// There is no case to run.
    Unknown,
}

impl fmt::Display for Support {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Support::View => f.write_str("view"),
            Support::Native => f.write_str("native"),
            Support::Composed(n) => write!(f, "composed of {n}"),
            Support::Unsupported => f.write_str("unsupported"),
            Support::Fails(_) => f.write_str("fails"),
            Support::Unknown => f.write_str("no case"),
        }
    }
}

/// The table in Markdown: a row per op, a column per device of this machine.
///
/// # Errors
/// `Format` if the built-in sample is damaged; what a device reports when it is opened.
pub fn capabilities() -> Result<String> {
    let cases = sample::cases(&Filter::default())?;
    let devices: Vec<Device> = devices()?.into_iter().map(|d| d.device).collect();
    let names: Vec<String> = devices.iter().map(Device::to_string).collect();
    let mut table = format!("| op | {} |\n|---|{}\n", names.join(" | "), "---|".repeat(devices.len()));
    for op in catalogue::NAMES.iter().chain(training::NAMES) {
        let case = cases.iter().find(|c| c.op == *op);
        let cell = |d: &Device| case.map_or(Support::Unknown, |c| support::<Any>(c, d)).to_string();
        let cells: Vec<String> = devices.iter().map(cell).collect();
        table += &format!("| {op} | {} |\n", cells.join(" | "));
    }
    for what in [Sums::Products, Sums::Convolutions, Sums::Attention] {
        table += &format!(
            "\n| {} with `Precision::Fast` | {} |\n|---|{}\n",
            what.name(),
            names.join(" | "),
            "---|".repeat(names.len())
        );
        for dtype in DType::FLOATS {
            let cell = |d: &Device| match fast::<Any>(what, dtype, d) {
                Err(e) if e.kind() == ErrorKind::Unsupported => Ok("unsupported"),
                other => other,
            };
            let cells: Result<Vec<&str>> = devices.iter().map(cell).collect();
            table += &format!("| {dtype} | {} |\n", cells?.join(" | "));
        }
    }
    Ok(table)
}

/// Work with a `Precision::Fast` form.
#[derive(Clone, Copy, Debug)]
enum Sums {
    Products,
    Convolutions,
    Attention,
}

impl Sums {
    fn name(self) -> &'static str {
        match self {
            Sums::Products => "products",
            Sums::Convolutions => "convolutions",
            Sums::Attention => "attention",
        }
    }
    /// The shapes of x and of the weights for n sums; of queries, and of keys and values.
    fn shapes(self, n: usize) -> [Vec<usize>; 2] {
        match self {
            Sums::Products => [vec![1, 2048], vec![n, 2048]],
            Sums::Convolutions => [vec![1, 256, 3, 3], vec![n, 256, 3, 3]],
            Sums::Attention => [vec![1, 1, 64, 64], vec![1, 1, 64, 64]],
        }
    }
    fn run<B: Backend>(self, x: &Array<B>, w: &Array<B>, bias: Option<&Array<B>>) -> Result<Array<B>> {
        match self {
            Sums::Products => catalogue::linear(x, w, bias),
            Sums::Convolutions => catalogue::conv2d(x, w, bias, &[1], &Padding::Valid, &[1], 1),
            Sums::Attention => catalogue::scaled_dot_product_attention(x, w, w, None, false, None, false),
        }
    }
    /// An addend that cancels most of n sums: the remainder shows how they were rounded, even where
    /// results have 8 bits. The weights of attention are rounded themselves.
    fn less<B: Backend>(self, x: &Array<B>, w: &Array<B>, n: usize) -> Result<Option<Array<B>>> {
        match self {
            Sums::Products | Sums::Convolutions => {
                let sums = Precision::Exact.scope(|| self.run(x, w, None))?;
                Ok(Some(catalogue::neg(&sums)?.reshape(&Shape::new(&[n])?)?))
            }
            Sums::Attention => Ok(None),
        }
    }
}

/// The effect of `Precision::Fast` on a device for sums of a type: the same bits, or others, every
/// time.
///
/// # Errors
/// The device's errors.
/// The device's errors.
fn fast<B: Backend>(what: Sums, dtype: DType, d: &B::Device) -> Result<&'static str> {
    const N: usize = 256;
    let noise = |shape: &[usize]| {
        let len: usize = shape.iter().product();
        // So small that the sums are numbers of every format.
        let number = |i: usize| (((i * 7919 + len) % 2003) as f32 / 1000.0 - 1.0) / 4.0;
        Array::<B>::from_vec(d, (0..len).map(number).collect(), shape)?.cast(dtype)
    };
    let [x, w] = what.shapes(N);
    let (x, w) = (noise(&x)?, noise(&w)?);
    let less = what.less(&x, &w, N)?;
    let run = |p: Precision| p.scope(|| what.run(&x, &w, less.as_ref()))?.to_host();
    let [exact, one, other] = [run(Precision::Exact)?, run(Precision::Fast)?, run(Precision::Fast)?];
    let is_same = |x: &HostTensor, y: &HostTensor| words(x.data()) == words(y.data());
    Ok(match (is_same(&one, &exact), is_same(&one, &other)) {
        (true, _) => "exact",
        (false, true) => "fast, the same every time",
        (false, false) => "fast, not the same every time",
    })
}

/// How a device of backend `B` runs the op of a case.
pub fn support<B: Backend>(case: &Case, device: &B::Device) -> Support {
    let calls = Arc::new(AtomicUsize::new(0));
    let seen = calls.clone();
    // Filling the constants of an op does not count as a further call.
    let count = move |work: Work| {
        if !work.is_transfer() && work != Work::Fill {
            seen.fetch_add(1, Ordering::Relaxed);
        }
    };
    let device = TwistedDevice { inner: device.clone(), twist: Twist::counting(count) };
    let run = || -> Result<()> {
        let mut inputs = Vec::new();
        for i in &case.inputs {
            inputs.push((i.role.clone(), Array::<Twisted<B>>::from_host(&device, i.tensor.clone())?));
        }
        let (op, attrs) = (case.op.clone(), case.attrs.clone());
        if training::has(&op) {
            let inputs = inputs.into_iter().map(|(role, x)| (role, Tensor::from_array(x))).collect();
            return training::call(&Args { op, inputs, attrs }, &device).map(|_| ());
        }
        catalogue::call(&Args { op, inputs, attrs }).map(|_| ())
    };
    match (caught(run), calls.load(Ordering::Relaxed)) {
        (Ok(Ok(())), 0) => Support::View,
        (Ok(Ok(())), 1) => Support::Native,
        (Ok(Ok(())), n) => Support::Composed(n),
        (Ok(Err(e)), _) if e.kind() == ErrorKind::Unsupported => Support::Unsupported,
        (Ok(Err(e)), _) => Support::Fails(e.message().to_string()),
        (Err(panic), _) => Support::Fails(panic),
    }
}
