//! Local response norm: each element divided by a power of the mean square of its neighbours in
//! other channels.

use crate::{Layer, Module};
use elinvar_core::{Error, Result};
use elinvar_ops::Backend;
use elinvar_ops::catalogue as op;
use elinvar_ops::catalogue::pad::Mode;
use elinvar_ops::lane::Lane;
use elinvar_ops::map::{Map, map};
use elinvar_ops::value::widen;
use elinvar_tensor::{OrFail, Tensor};
use std::fmt;

/// x / (k + alpha * mean of x^2 over `size` channels around)^beta (Krizhevsky and others, 2012).
///
/// x: [n, c, spatial..]   y: as x. Beyond the first and last channel there are zeros, which count.
#[derive(Clone, Copy, Debug, Module)]
#[module(display)]
pub struct LocalResponseNorm {
    size: usize,
    alpha: f64,
    beta: f64,
    k: f64,
}

/// x / (k + alpha * m)^beta
#[derive(Clone, Copy, Debug)]
struct Divide {
    alpha: f64,
    beta: f64,
    k: f64,
}

impl Map<2> for Divide {
    const NAME: &'static str = "local_response_norm";
    #[inline(always)]
    fn lane<L: Lane>(&self, [x, m]: [L; 2]) -> L {
        x / (L::lit(self.k) + L::lit(self.alpha) * m).pow(L::lit(self.beta))
    }
}
elinvar_ops::compile_map! { 2 Divide; }

impl LocalResponseNorm {
    /// Over this many channels, with alpha 1e-4, beta 0.75 and k 1.
    pub fn new(size: usize) -> Self {
        LocalResponseNorm { size, alpha: 1e-4, beta: 0.75, k: 1.0 }
    }
    /// The factor of the mean square.
    #[must_use]
    pub fn alpha(mut self, alpha: f64) -> Self {
        self.alpha = alpha;
        self
    }
    /// The exponent.
    #[must_use]
    pub fn beta(mut self, beta: f64) -> Self {
        self.beta = beta;
        self
    }
    /// The constant that is added to the mean square.
    #[must_use]
    pub fn k(mut self, k: f64) -> Self {
        self.k = k;
        self
    }
    fn run<B: Backend>(&self, x: &Tensor<B>) -> Result<Tensor<B>> {
        let (rank, size) = (x.rank(), self.size);
        if rank < 3 || size == 0 || size > MOST {
            return Err(Error::argument(format!(
                "local_response_norm: {size} channels around each of input {}; 1 to {MOST} of [n, c, spatial..] would fit",
                x.shape()
            )));
        }
        // No padding of the spatial axes, which come first; one more before than after the channels
        // if the size is even.
        let mut amounts = vec![0; 2 * (rank - 2)];
        amounts.extend([(size / 2) as isize, ((size - 1) / 2) as isize]);
        let squares = op::pad(&op::square(x)?, &amounts, Mode::Constant(0.into()))?;
        let mean = op::mean(&op::unfold_dim(&squares, 1, size, 1)?, Some(&[-1]), false)?;
        map(Divide { alpha: self.alpha, beta: self.beta, k: self.k }, [x, &mean])
    }
}

/// Limit of `size`: far more channels than any network has; beyond it the padding alone could
/// exhaust memory.
const MOST: usize = 1 << 20;

impl<B: Backend> Layer<B> for LocalResponseNorm {
    #[track_caller]
    fn forward(&self, x: &Tensor<B>) -> Tensor<B> {
        widen([x], |[x]| self.run(x)).or_fail()
    }
}

impl fmt::Display for LocalResponseNorm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "LocalResponseNorm({}, alpha {:e}, beta {}, k {})",
            self.size, self.alpha, self.beta, self.k
        )
    }
}
