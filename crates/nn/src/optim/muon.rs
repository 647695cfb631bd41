//! `Muon`: orthogonalised momentum (Jordan et al. 2024). For matrices only.
//!
//! The orthogonal matrix nearest to the momentum would be U V^T of its singular value
//! decomposition. A few steps of a Newton-Schulz iteration approximate it with matrix products
//! alone: the resulting singular values are between about 0.7 and 1.2.

use super::rule::setters;
use super::{At, Descent, Range, Rule, Setting, Step, Work, each};
use elinvar_core::{Error, Result, Shape};
use elinvar_ops::Backend;
use elinvar_ops::array::{self, Array};
use elinvar_ops::catalogue::{matmul, norm, transpose, where_};
use elinvar_ops::lane::Lane;
use elinvar_ops::map::Map;
use elinvar_ops::update::UpdateObject;

/// Muon.
///
/// buffer = momentum * buffer + (1 - momentum) * g; with `nesterov` the direction is momentum *
/// buffer + (1 - momentum) * g, else the buffer. X = direction / max(|direction|, eps), then
/// `ns_steps` times: A = X X^T, X = a X + (b A + c A A) X, with (a, b, c) = `ns_coefficients`. The
/// parameter shrinks by 1 - lr * weight_decay (default 0.1), and goes down lr * scale * X, where
/// scale is sqrt(max(1, rows / columns)) or, with `adjust_lr_fn` "match_rms_adamw", 0.2 *
/// sqrt(max(rows, columns)).
///
/// A parameter of more than two axes, a convolution's, is the matrix \[first, rest\]. One of fewer
/// is an error: use another optimiser for those, for embeddings and for the last layer, with
/// [`super::Split`]. Computed in the parameter's compute dtype, where the original uses bf16.
pub type Muon<B> = Descent<B, MuonRule>;

/// The settings of [`Muon`].
#[derive(Clone, Copy, Debug)]
pub struct MuonRule {
    momentum: f64,
    nesterov: bool,
    ns_coefficients: [f64; 3],
    eps: f64,
    ns_steps: usize,
    adjust_lr_fn: &'static str,
}

/// Adjustments of the learning rate, by PyTorch's names.
const ADJUST: &[&str] = &["original", "match_rms_adamw"];

/// Limit of `ns_steps`: far more than the usual 5.
const MOST_STEPS: usize = 100;

impl Default for MuonRule {
    fn default() -> Self {
        MuonRule {
            momentum: 0.95,
            nesterov: true,
            // The quintic polynomial that amplifies small singular values most while it keeps the
            // others near 1 (Jordan et al.).
            ns_coefficients: [3.4445, -4.7750, 2.0315],
            eps: 1e-7,
            ns_steps: 5,
            adjust_lr_fn: ADJUST[0],
        }
    }
}

setters! { MuonRule:
    /// Decay of the buffer, in 0..1 (default 0.95).
    momentum: f64;
    /// Nesterov momentum (default true).
    nesterov: bool;
    /// The polynomial of the iteration.
    ns_coefficients: [f64; 3];
    /// Lower bound of the norm by which a direction is divided (default 1e-7).
    eps: f64;
    /// Number of steps of the iteration (default 5).
    ns_steps: usize;
}

impl<B: Backend> Muon<B> {
    /// Scales steps to the size of [`super::AdamW`]'s, so that its learning rate and weight decay
    /// can be reused (Moonlight, 2025).
    #[must_use]
    pub fn match_rms_adamw(mut self) -> Self {
        self.rule_mut().adjust_lr_fn = ADJUST[1];
        self
    }
}

/// Rows and columns of a parameter.
fn matrix(shape: &Shape) -> Option<[usize; 2]> {
    match shape.dims() {
        [rows, rest @ ..] if !rest.is_empty() => Some([*rows, rest.iter().product()]),
        _ => None,
    }
}

/// momentum * buffer + (1 - momentum) * g, of (g, buffer): the new buffer from the old one, and the
/// direction from that with Nesterov momentum.
#[derive(Clone, Copy, Debug)]
struct Momentum {
    momentum: f64,
}

impl Map<2> for Momentum {
    const NAME: &'static str = "muon_momentum";
    #[inline(always)]
    fn lane<L: Lane>(&self, [g, buffer]: [L; 2]) -> L {
        L::lit(self.momentum).fma(buffer, L::lit(1.0 - self.momentum) * g)
    }
}
elinvar_ops::compile_map! { 2 Momentum; }

/// x / max(norm, eps)
#[derive(Clone, Copy, Debug)]
struct Unit {
    eps: f64,
}

impl Map<2> for Unit {
    const NAME: &'static str = "muon_unit";
    #[inline(always)]
    fn lane<L: Lane>(&self, [x, norm]: [L; 2]) -> L {
        x / norm.max(L::lit(self.eps))
    }
}
elinvar_ops::compile_map! { 2 Unit; }

/// p * x + q * y
#[derive(Clone, Copy, Debug)]
struct Blend {
    p: f64,
    q: f64,
}

impl Map<2> for Blend {
    const NAME: &'static str = "muon_blend";
    #[inline(always)]
    fn lane<L: Lane>(&self, [x, y]: [L; 2]) -> L {
        L::lit(self.q).fma(y, L::lit(self.p) * x)
    }
}
elinvar_ops::compile_map! { 2 Blend; }

impl MuonRule {
    /// Orthogonalises a direction approximately; the result has the direction's shape.
    fn orthogonal<B: Backend>(&self, direction: &Array<B>) -> Result<Array<B>> {
        let Some([rows, columns]) = matrix(direction.shape()) else {
            return Err(Error::shape(format!(
                "a parameter of shape {} is no matrix; give it to another optimiser with Split",
                direction.shape()
            )));
        };
        let [a, b, c] = self.ns_coefficients;
        let mut x = direction.reshape(&Shape::new(&[rows, columns])?)?;
        // The smaller of the two products X X^T and X^T X.
        let is_tall = rows > columns;
        if is_tall {
            x = transpose(&x, 0, 1)?;
        }
        x = array::map(&Unit { eps: self.eps }, [&x, &norm(&x, 2.0, None, false)?])?;
        for _ in 0..self.ns_steps {
            let gram = matmul(&x, &transpose(&x, 0, 1)?)?;
            let polynomial = array::map(&Blend { p: b, q: c }, [&gram, &matmul(&gram, &gram)?])?;
            x = array::map(&Blend { p: a, q: 1.0 }, [&x, &matmul(&polynomial, &x)?])?;
        }
        if is_tall {
            x = transpose(&x, 0, 1)?;
        }
        x.reshape(direction.shape())
    }
}

impl Rule for MuonRule {
    const NAME: &'static str = "muon";
    const WEIGHT_DECAY: f64 = 0.1;
    const COUNTS: bool = false;

    fn settings(&mut self) -> Vec<(&'static str, Setting<'_>)> {
        vec![
            ("momentum", Setting::Number(&mut self.momentum, Range::BelowOne)),
            ("nesterov", Setting::Flag(&mut self.nesterov)),
            ("ns_coefficients", Setting::Numbers(&mut self.ns_coefficients, Range::Finite)),
            ("eps", Setting::Number(&mut self.eps, Range::NotNegative)),
            ("ns_steps", Setting::Count(&mut self.ns_steps, MOST_STEPS)),
            ("adjust_lr_fn", Setting::Word(&mut self.adjust_lr_fn, ADJUST)),
        ]
    }
    fn decoupled(&self) -> bool {
        true
    }
    fn keeps(&self) -> Vec<(&'static str, f64)> {
        vec![("momentum_buffer", 0.0)]
    }
    fn scalars(&self, at: At<'_>, _: &mut [f64]) -> Vec<f64> {
        let [rows, columns] = matrix(at.shape).unwrap_or([1, 1]).map(|n| n as f64);
        vec![
            at.lr
                * if self.adjust_lr_fn == ADJUST[0] {
                    (rows / columns).max(1.0).sqrt()
                } else {
                    0.2 * rows.max(columns).sqrt()
                },
        ]
    }
    /// `g` is the orthogonal direction here.
    #[inline(always)]
    fn lane<L: Lane>(&self, x: L, g: L, _: &mut [L], s: &[L]) -> L {
        (-s[0]).fma(g, x)
    }
    #[inline(never)]
    fn formula(step: Step<Self>) -> Box<dyn UpdateObject> {
        step.formula::<1, 3>()
    }
    fn run<B: Backend>(step: &Step<Self>, all: &mut [Work<'_, B>]) -> Result<()> {
        let rule = &step.rule;
        let momentum = Momentum { momentum: rule.momentum };
        // All of this may fail, so nothing is written before all of it is computed.
        let mut new = Vec::with_capacity(all.len());
        for w in &*all {
            let direction = || {
                let g = w.g.cast(w.g.dtype().compute())?;
                let buffer = array::map(&momentum, [&g, &w.states[0]])?;
                let ahead =
                    if rule.nesterov { array::map(&momentum, [&g, &buffer])? } else { buffer.clone() };
                let direction = rule.orthogonal(&ahead)?;
                match &w.skip {
                    Some(skip) => Ok((direction, where_(skip, &w.states[0], &buffer)?)),
                    None => Ok((direction, buffer)),
                }
            };
            new.push(direction().map_err(|e: Error| e.at(w.name))?);
        }
        // The buffers are not operands of the formula, whose gradient is the direction.
        let mut buffers = Vec::with_capacity(all.len());
        for (w, (direction, buffer)) in all.iter_mut().zip(new) {
            w.g = direction;
            buffers.push((std::mem::take(&mut w.states), buffer));
        }
        let done = each(&*Self::formula(*step), all);
        for (w, (old, new)) in all.iter_mut().zip(buffers) {
            w.states = if done.is_ok() { vec![new] } else { old };
        }
        done
    }
}
