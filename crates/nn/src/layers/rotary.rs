//! Rotary position embedding (Su and others, 2021): pairs of a head's features are rotated by an
//! angle proportional to the position, so that a product of query and key depends on their
//! distance.
//!
//! The pairs are (i, i + d / 2), as in GPT-NeoX and Llama ("rotate_half"). Frequencies and angles
//! are rounded to f32 where the transformers library rounds them, because models were trained that
//! way; powers, cosines and sines are the project's own functions in f64, so the tables have the
//! same bits on every machine.

use elinvar_core::{DType, Error, HostTensor, Result, Shape};
use elinvar_ops::Backend;
use elinvar_ops::catalogue as op;
use elinvar_ops::lane::Lane;
use elinvar_ops::map::{Map, map};
use elinvar_tensor::{OrFail, Tensor};

/// How a model was extended to more positions than it was first trained with.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum RotaryScaling {
    /// No scaling.
    #[default]
    None,
    /// All frequencies divided (Chen and others, 2023).
    Linear {
        /// The divisor.
        factor: f64,
    },
    /// Llama 3.1: low frequencies are divided, high ones kept, those in between interpolated.
    Llama3 {
        /// The divisor of low frequencies.
        factor: f64,
        /// A frequency with fewer turns than this within the original positions is low.
        low_freq_factor: f64,
        /// A frequency with more turns than this is high.
        high_freq_factor: f64,
        /// Number of positions of the original training.
        original_positions: usize,
    },
}

/// Rotary position embedding of heads of one size.
#[derive(Clone, Debug, PartialEq)]
pub struct Rotary {
    /// Angle per position of each pair.
    frequencies: Vec<f32>,
}

/// Cosines and sines of consecutive positions, computed once in a pass and shared by all layers.
#[derive(Clone, Debug)]
pub struct RotaryTable<B: Backend> {
    /// [t, pairs]
    cos: Tensor<B>,
    /// [t, pairs]
    sin: Tensor<B>,
}

impl Rotary {
    /// For the first `size` features of a head (an even number; usually all of them) and this base
    /// ("theta"): pair i is rotated by base^(-2 i / size) per position.
    ///
    /// # Errors
    /// `InvalidArgument` if the size is odd, or the base or a factor not positive; `OutOfMemory`.
    pub fn new(size: usize, base: f64, scaling: RotaryScaling) -> Result<Self> {
        if !size.is_multiple_of(2) {
            return Err(Error::argument(format!(
                "rotary: {size} numbers are not pairs; the size should be even"
            )));
        }
        positive("base", base)?;
        match scaling {
            RotaryScaling::None => {}
            RotaryScaling::Linear { factor } => positive("factor", factor)?,
            RotaryScaling::Llama3 { factor, low_freq_factor, high_freq_factor, original_positions } => {
                positive("factor", factor)?;
                positive("low_freq_factor", low_freq_factor)?;
                positive("high_freq_factor - low_freq_factor", high_freq_factor - low_freq_factor)?;
                positive("original_max_position_embeddings", original_positions as f64)?;
            }
        }
        let mut frequencies = elinvar_core::host::with_capacity(size / 2)?;
        frequencies.extend((0..size / 2).map(|i| {
            let exponent = (2 * i) as f32 / size as f32;
            scaled(1.0 / Lane::pow(base, f64::from(exponent)) as f32, scaling)
        }));
        Ok(Rotary { frequencies })
    }
    /// Number of rotated features of a head.
    pub fn size(&self) -> usize {
        2 * self.frequencies.len()
    }
    /// Cosines and sines for positions `start..start + t`.
    ///
    /// # Errors
    /// `OutOfMemory`; `DTypeMismatch` if `dtype` is not of floats; what the device reports.
    pub fn table<B: Backend>(
        &self,
        start: usize,
        t: usize,
        dtype: DType,
        device: &B::Device,
    ) -> Result<RotaryTable<B>> {
        let shape = Shape::new(&[t, self.frequencies.len()])?;
        let mut angles = elinvar_core::host::with_capacity(shape.numel())?;
        for position in start..start + t {
            angles.extend(self.frequencies.iter().map(|f| f64::from(position as f32 * f)));
        }
        let upload = |f: fn(f64) -> f64| {
            let values = angles.iter().map(|&a| f(a) as f32).collect();
            let table = Tensor::<B>::from_host(HostTensor::from_vec(values, shape.clone())?, device)?;
            elinvar_ops::value::cast(&table, dtype)
        };
        Ok(RotaryTable { cos: upload(Lane::cos)?, sin: upload(Lane::sin)? })
    }
}

fn positive(what: &str, value: f64) -> Result<()> {
    if value > 0.0 && value.is_finite() {
        Ok(())
    } else {
        Err(Error::argument(format!("rotary: {what} is {value}; it should be above 0")))
    }
}

/// A frequency after scaling. In f32, step by step as transformers does it: at position 10^4 one
/// more rounding of a frequency moves a cosine by 10^-4.
fn scaled(f: f32, scaling: RotaryScaling) -> f32 {
    match scaling {
        RotaryScaling::None => f,
        RotaryScaling::Linear { factor } => f / factor as f32,
        RotaryScaling::Llama3 { factor, low_freq_factor, high_freq_factor, original_positions } => {
            let (positions, factor) = (original_positions as f32, factor as f32);
            let wave = (1.0 / f) * core::f64::consts::TAU as f32;
            let slow = (original_positions as f64 / low_freq_factor) as f32;
            let fast = (original_positions as f64 / high_freq_factor) as f32;
            if wave > slow {
                f / factor
            } else if wave < fast {
                f
            } else {
                let turns = (1.0 / wave) * positions;
                let kept = (turns - low_freq_factor as f32) / (high_freq_factor - low_freq_factor) as f32;
                (1.0 - kept) * f / factor + kept * f
            }
        }
    }
}

/// a * cos - b * sin: the first of a rotated pair (a, b).
#[derive(Clone, Copy, Debug)]
struct First;

impl Map<4> for First {
    const NAME: &'static str = "rotary_first";
    #[inline(always)]
    fn lane<L: Lane>(&self, [a, b, cos, sin]: [L; 4]) -> L {
        a * cos - b * sin
    }
}
elinvar_ops::compile_map! { 4 First; }

/// b * cos + a * sin: the second.
#[derive(Clone, Copy, Debug)]
struct Second;

impl Map<4> for Second {
    const NAME: &'static str = "rotary_second";
    #[inline(always)]
    fn lane<L: Lane>(&self, [a, b, cos, sin]: [L; 4]) -> L {
        b * cos + a * sin
    }
}
elinvar_ops::compile_map! { 4 Second; }

impl<B: Backend> RotaryTable<B> {
    /// The rows of these positions, [t] of i64.
    pub(crate) fn at(&self, places: &Tensor<B>) -> Result<RotaryTable<B>> {
        let rows = |x: &Tensor<B>| op::index_select(x, 0, places);
        Ok(RotaryTable { cos: rows(&self.cos)?, sin: rows(&self.sin)? })
    }
    /// Rotates queries or keys by their positions; features beyond `size` pass through.
    ///
    /// x: [b, h, t, d]   y: as x
    ///
    /// # Panics
    /// If x does not have t positions, or has fewer features than are rotated.
    #[track_caller]
    pub fn turn(&self, x: &Tensor<B>) -> Tensor<B> {
        self.turned(x).or_fail()
    }
    fn turned(&self, x: &Tensor<B>) -> Result<Tensor<B>> {
        let (t, pairs) = (self.cos.dims()[0], self.cos.dims()[1]);
        if x.rank() < 2 || x.dims()[x.rank() - 2] != t || x.dims()[x.rank() - 1] < 2 * pairs {
            return Err(Error::shape(format!(
                "rotary: x {}; it should be [.., {t}, {} or more]",
                x.shape(),
                2 * pairs
            )));
        }
        let rest = x.dims()[x.rank() - 1] - 2 * pairs;
        let (a, b) = (x.narrow(-1, 0, pairs), x.narrow(-1, pairs as isize, pairs));
        let first = map(First, [&a, &b, &self.cos, &self.sin])?;
        let second = map(Second, [&a, &b, &self.cos, &self.sin])?;
        let mut parts = vec![&first, &second];
        let tail = (rest > 0).then(|| x.narrow(-1, 2 * pairs as isize, rest));
        parts.extend(tail.as_ref());
        Ok(Tensor::concat(&parts, -1))
    }
}
