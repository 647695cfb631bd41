//! Dropout: in training, some elements or channels become 0 (or a constant) and the others larger.
//!
//! Each layer has its own random number generator, so dropout of one layer does not depend on other
//! layers, and its state can be saved.

use crate::{Layer, Mode, Module, RandomState};
use elinvar_core::{Error, Result};
use elinvar_ops::Backend;
use elinvar_ops::catalogue as op;
use elinvar_ops::lane::Lane;
use elinvar_ops::map::{Map, map};
use elinvar_ops::value::widen;
use elinvar_tensor::{Generator, OrFail, Tensor};
use std::fmt;

/// [`DropoutChannels`] of [n, c, l].
pub type Dropout1d = DropoutChannels<1>;
/// [`DropoutChannels`] of [n, c, h, w].
pub type Dropout2d = DropoutChannels<2>;
/// [`DropoutChannels`] of [n, c, d, h, w].
pub type Dropout3d = DropoutChannels<3>;

/// Zero with probability p, else x / (1 - p); passes x through after `eval()`.
#[derive(Debug, Module)]
#[module(display)]
pub struct Dropout {
    p: f64,
    mode: Mode,
    random: RandomState,
}

fn checked(name: &str, p: f64) -> Result<()> {
    if (0.0..=1.0).contains(&p) {
        Ok(())
    } else {
        Err(Error::argument(format!("{name}: probability {p}; it should be in 0..=1")))
    }
}

impl Dropout {
    /// Drops with probability `p`, with random numbers of a fork of `g`.
    ///
    /// # Panics
    /// If `p` is not in 0..=1.
    #[track_caller]
    pub fn new(p: f64, g: &mut Generator) -> Self {
        checked("dropout", p).or_fail();
        Dropout { p, mode: Mode::new(), random: RandomState::fork(g) }
    }
    /// Is it in training mode with a probability above 0?
    pub(super) fn is_active(&self) -> bool {
        self.mode.is_training() && self.p > 0.0
    }
    pub(super) fn run<B: Backend>(&self, x: &Tensor<B>) -> Result<Tensor<B>> {
        if !self.is_active() {
            return Ok(x.clone());
        }
        self.random.dropout(x, self.p)
    }
}

impl<B: Backend> Layer<B> for Dropout {
    #[track_caller]
    fn forward(&self, x: &Tensor<B>) -> Tensor<B> {
        self.run(x).or_fail()
    }
}

impl fmt::Display for Dropout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Dropout({})", self.p)
    }
}

/// As [`Dropout`] for whole channels: neighbouring pixels are strongly correlated, so dropping
/// single pixels regularises little.
///
/// x: [n, c, spatial..] or [c, spatial..] with `AXES` spatial axes
#[derive(Debug, Module)]
#[module(display)]
pub struct DropoutChannels<const AXES: usize> {
    p: f64,
    mode: Mode,
    random: RandomState,
}

impl<const AXES: usize> DropoutChannels<AXES> {
    /// Drops a channel with probability `p`, with random numbers of a fork of `g`.
    ///
    /// # Panics
    /// If `p` is not in 0..=1.
    #[track_caller]
    pub fn new(p: f64, g: &mut Generator) -> Self {
        checked("dropout", p).or_fail();
        DropoutChannels { p, mode: Mode::new(), random: RandomState::fork(g) }
    }
    fn run<B: Backend>(&self, x: &Tensor<B>) -> Result<Tensor<B>> {
        if x.rank() != AXES + 1 && x.rank() != AXES + 2 {
            return Err(Error::shape(format!(
                "dropout{AXES}d: input {}; it should be [n, c, spatial..] or [c, spatial..] with {AXES} spatial axes",
                x.shape()
            )));
        }
        if !self.mode.is_training() || self.p == 0.0 {
            return Ok(x.clone());
        }
        let mut sizes = x.dims().to_vec();
        sizes[x.rank() - AXES..].fill(1);
        // In f32 for storage floats, which do not hold 1 / (1 - p).
        widen([x], |[x]| {
            let ones = Tensor::ones(sizes, x.dtype(), x.device());
            op::mul(x, &self.random.dropout(&ones, self.p)?)
        })
    }
}

impl<B: Backend, const AXES: usize> Layer<B> for DropoutChannels<AXES> {
    #[track_caller]
    fn forward(&self, x: &Tensor<B>) -> Tensor<B> {
        self.run(x).or_fail()
    }
}

impl<const AXES: usize> fmt::Display for DropoutChannels<AXES> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Dropout{AXES}d({})", self.p)
    }
}

/// Dropout for [`super::SELU`] (Klambauer and others, 2017): dropped elements get SELU's limit for
/// very negative x, and the result is scaled and shifted so that mean 0 and variance 1 are
/// preserved. Passes x through after `eval()`.
#[derive(Debug, Module)]
#[module(display)]
pub struct AlphaDropout {
    p: f64,
    mode: Mode,
    random: RandomState,
}

/// SELU's limit for very negative x: minus its scale times its alpha.
const LIMIT: f64 = -1.0507009873554805 * 1.6732632423543772;

/// (x if not dropped, else the limit) * scale + shift
#[derive(Clone, Copy, Debug)]
struct Drop {
    scale: f64,
    shift: f64,
}

impl Map<2> for Drop {
    const NAME: &'static str = "alpha_dropout";
    #[inline(always)]
    fn lane<L: Lane>(&self, [x, keep]: [L; 2]) -> L {
        L::select(keep.to_mask(), x, L::lit(LIMIT)).fma(L::lit(self.scale), L::lit(self.shift))
    }
}
elinvar_ops::compile_map! { 2 Drop; }

impl AlphaDropout {
    /// Drops with probability `p`, with random numbers of a fork of `g`.
    ///
    /// # Panics
    /// If `p` is no probability, or if it is 1, for which mean and variance cannot be preserved.
    #[track_caller]
    pub fn new(p: f64, g: &mut Generator) -> Self {
        checked("alpha_dropout", p).or_fail();
        if p == 1.0 {
            Err(Error::argument("alpha_dropout: probability 1; it should be below")).or_fail()
        }
        AlphaDropout { p, mode: Mode::new(), random: RandomState::fork(g) }
    }
}

impl<B: Backend> Layer<B> for AlphaDropout {
    #[track_caller]
    fn forward(&self, x: &Tensor<B>) -> Tensor<B> {
        if !self.mode.is_training() || self.p == 0.0 {
            return x.clone();
        }
        let keep = self.random.bernoulli::<B>(1.0 - self.p, x.shape(), x.device()).or_fail();
        // The variance of a mixture: (1 - p) (1 + p limit^2), for x of mean 0 and variance 1; its
        // mean: p limit.
        let scale = 1.0 / ((1.0 - self.p) * (1.0 + self.p * LIMIT * LIMIT)).sqrt();
        map(Drop { scale, shift: -scale * self.p * LIMIT }, [x, &keep]).or_fail()
    }
}

impl fmt::Display for AlphaDropout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AlphaDropout({})", self.p)
    }
}
