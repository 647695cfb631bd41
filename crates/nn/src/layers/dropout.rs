//! `Dropout`: in training, some elements become 0 and the others larger.

use crate::{Layer, Mode, Module, RandomState};
use elinvar_core::{DType, Error, Result};
use elinvar_ops::Backend;
use elinvar_ops::lane::Lane;
use elinvar_ops::map::{Map, map};
use elinvar_tensor::{Generator, OrFail, Tensor};
use std::fmt;

/// Zero with probability p, else x / (1 - p); passes x through after `eval()`.
///
/// The layer has a source of random numbers of its own, so what one layer drops does not depend on other layers, and
/// its state can be saved.
#[derive(Debug, Module)]
#[module(display)]
pub struct Dropout {
    p: f64,
    mode: Mode,
    random: RandomState,
}

/// x * (keep * scale)
#[derive(Clone, Copy, Debug)]
struct Drop {
    scale: f64,
}

impl Map<2> for Drop {
    const NAME: &'static str = "dropout";
    #[inline(always)]
    fn lane<L: Lane>(&self, [x, keep]: [L; 2]) -> L {
        x * (keep * L::lit(self.scale))
    }
}

impl Dropout {
    /// Drops with probability `p`, by random numbers split off from `g`.
    ///
    /// # Panics
    /// If `p` is no probability.
    #[track_caller]
    pub fn new(p: f64, g: &mut Generator) -> Self {
        checked(p).or_fail();
        Dropout { p, mode: Mode::new(), random: RandomState::fork(g) }
    }
}

fn checked(p: f64) -> Result<()> {
    if (0.0..=1.0).contains(&p) {
        Ok(())
    } else {
        Err(Error::argument(format!("dropout: probability {p}; it should be in 0..=1")))
    }
}

impl<B: Backend> Layer<B> for Dropout {
    #[track_caller]
    fn forward(&self, x: &Tensor<B>) -> Tensor<B> {
        if !self.mode.is_training() || self.p == 0.0 {
            return x.clone();
        }
        let keep = self.random.draw(|g| g.bernoulli(1.0 - self.p, x.shape(), DType::Bool, x.device()));
        // Where nothing stays, the scale would be infinite.
        let scale = if self.p == 1.0 { 0.0 } else { 1.0 / (1.0 - self.p) };
        map(Drop { scale }, [x, &keep]).or_fail()
    }
}

impl fmt::Display for Dropout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Dropout({})", self.p)
    }
}
