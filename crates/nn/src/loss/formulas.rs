//! The rarer losses: formulas over a few ops.

use super::Reduction;
use elinvar_core::{Error, Result};
use elinvar_ops::Backend;
use elinvar_ops::autocast::run as in_scope;
use elinvar_ops::catalogue as op;
use elinvar_ops::lane::Lane;
use elinvar_ops::map::{Map, map};
use elinvar_ops::value::{cast, widen};
use elinvar_tensor::{OrFail, Tensor};

/// Applies the reduction to the losses of elements or samples.
fn reduced<B: Backend>(name: &str, losses: &Tensor<B>, reduction: Reduction) -> Result<Tensor<B>> {
    op::reduction::not_by_batch(name, reduction)?;
    match reduction {
        Reduction::None | Reduction::BatchMean => Ok(losses.clone()),
        Reduction::Mean => op::mean(losses, None, false),
        Reduction::Sum => op::sum(losses, None, false),
    }
}

/// max(0, x), and NaN at NaN.
#[inline(always)]
fn positive<L: Lane>(x: L) -> L {
    let zero = L::lit(0.0);
    L::select(x.lt(zero), zero, x)
}

/// (log v + (x - t)^2 / v) / 2 + rest, with v = max(variance, eps)
#[derive(Clone, Copy, Debug)]
struct Gaussian {
    eps: f64,
    rest: f64,
}

impl Gaussian {
    #[inline(always)]
    fn at_least_eps<L: Lane>(&self, v: L) -> L {
        let eps = L::lit(self.eps);
        L::select(v.lt(eps), eps, v)
    }
}

impl Map<3> for Gaussian {
    const NAME: &'static str = "gaussian_nll_loss";
    #[inline(always)]
    fn lane<L: Lane>(&self, [x, t, v]: [L; 3]) -> L {
        let (d, v) = (x - t, self.at_least_eps(v));
        L::lit(0.5) * (v.log() + d * d / v) + L::lit(self.rest)
    }
    /// As in PyTorch, eps bounds the variance but not its gradient, so that optimisation can leave
    /// that region.
    #[inline(always)]
    fn vjp<L: Lane>(&self, i: usize, [x, t, v]: [L; 3], _: L, g: L) -> L {
        let v = self.at_least_eps(v);
        let d = (x - t) / v;
        match i {
            0 => g * d,
            1 => -(g * d),
            _ => g * (L::lit(0.5) * (L::lit(1.0) / v - d * d)),
        }
    }
}
elinvar_ops::compile_map! { 3 Gaussian; }

/// The negative log-likelihood of a target under a normal distribution of mean x and this variance
/// (at least `eps`): (log variance + (x - target)^2 / variance) / 2, and with `full` +
/// log(2 pi) / 2.
///
/// # Panics
/// If shapes or dtypes do not fit, a variance or `eps` is negative, or memory is exhausted. To look
/// at the variances synchronises with the device; in a function that is recorded they are not
/// looked at.
#[track_caller]
pub fn gaussian_nll_loss<B: Backend>(
    x: &Tensor<B>,
    target: &Tensor<B>,
    variance: &Tensor<B>,
    full: bool,
    eps: f64,
    reduction: Reduction,
) -> Tensor<B> {
    let rest = if full { HALF_LOG_2_PI } else { 0.0 };
    let run = |[x, t, v]: [&Tensor<B>; 3]| {
        op::normalize::check_eps("gaussian_nll_loss", eps)?;
        op::range::check_range("gaussian_nll_loss", "the variance", v, 0.0, f64::INFINITY)?;
        reduced("gaussian_nll_loss", &map(Gaussian { eps, rest }, [x, t, v])?, reduction)
    };
    in_scope("gaussian_nll_loss", [x, target, variance], |all| widen(all, run)).or_fail()
}

/// log(2 pi) / 2
const HALF_LOG_2_PI: f64 = 0.918_938_533_204_672_8;

/// exp(x) - t x, or x - t log(x + eps), + t log t - t + log(2 pi t) / 2 where t > 1 if `full`
#[derive(Clone, Copy, Debug)]
struct Poisson {
    log_input: bool,
    full: bool,
    eps: f64,
}

impl Map<2> for Poisson {
    const NAME: &'static str = "poisson_nll_loss";
    #[inline(always)]
    fn lane<L: Lane>(&self, [x, t]: [L; 2]) -> L {
        let loss = if self.log_input { x.exp() - t * x } else { x - t * (x + L::lit(self.eps)).log() };
        if !self.full {
            return loss;
        }
        let one = L::lit(1.0);
        let many = t.gt(one);
        let safe = L::select(many, t, one);
        let stirling = (safe + L::lit(0.5)) * safe.log() - safe + L::lit(HALF_LOG_2_PI);
        loss + L::select(many, stirling, L::lit(0.0))
    }
}
elinvar_ops::compile_map! { 2 Poisson; }

/// The negative log-likelihood of a count under a Poisson distribution of rate exp(x), or of rate x
/// if not `log_input`; with `full` including Stirling's approximation of log(target!), which does
/// not depend on x.
///
/// # Panics
/// If shapes or dtypes do not fit, or memory is exhausted.
#[track_caller]
pub fn poisson_nll_loss<B: Backend>(
    x: &Tensor<B>,
    target: &Tensor<B>,
    log_input: bool,
    full: bool,
    eps: f64,
    reduction: Reduction,
) -> Tensor<B> {
    let formula = Poisson { log_input, full, eps };
    let run = |[x, t]: [&Tensor<B>; 2]| reduced("poisson_nll_loss", &map(formula, [x, t])?, reduction);
    in_scope("poisson_nll_loss", [x, target], |all| widen(all, run)).or_fail()
}

/// max(0, margin - t (x - y))
#[derive(Clone, Copy, Debug)]
struct Ranking {
    margin: f64,
}

impl Map<3> for Ranking {
    const NAME: &'static str = "margin_ranking_loss";
    #[inline(always)]
    fn lane<L: Lane>(&self, [x, y, t]: [L; 3]) -> L {
        positive(-t * (x - y) + L::lit(self.margin))
    }
}
elinvar_ops::compile_map! { 3 Ranking; }

/// Margin ranking loss: max(0, -target * (x - y) + margin), where target is 1 if x should be
/// larger, and -1 if y should.
///
/// # Panics
/// If shapes or dtypes do not fit, or memory is exhausted.
#[track_caller]
pub fn margin_ranking_loss<B: Backend>(
    x: &Tensor<B>,
    y: &Tensor<B>,
    target: &Tensor<B>,
    margin: f64,
    reduction: Reduction,
) -> Tensor<B> {
    let run = |[x, y, t]: [&Tensor<B>; 3]| {
        reduced("margin_ranking_loss", &map(Ranking { margin }, [x, y, t])?, reduction)
    };
    in_scope("margin_ranking_loss", [x, y, target], |all| widen(all, run)).or_fail()
}

/// log(1 + exp(-t x)), without overflow
#[derive(Clone, Copy, Debug)]
struct SoftMargin;

impl Map<2> for SoftMargin {
    const NAME: &'static str = "soft_margin_loss";
    #[inline(always)]
    fn lane<L: Lane>(&self, [x, t]: [L; 2]) -> L {
        let m = -t * x;
        positive(m) + (-m.abs()).exp().log1p()
    }
    /// By x: -t sigmoid(-t x). The dual reading has a kink where m is 0.
    #[inline(always)]
    fn vjp<L: Lane>(&self, i: usize, [x, t]: [L; 2], _: L, g: L) -> L {
        let s = (-t * x).sigmoid();
        if i == 0 { -(g * t * s) } else { -(g * x * s) }
    }
}
elinvar_ops::compile_map! { 2 SoftMargin; }

/// log(1 + exp(-target * x)), for targets of 1 and -1.
///
/// # Panics
/// If shapes or dtypes do not fit, or memory is exhausted.
#[track_caller]
pub fn soft_margin_loss<B: Backend>(x: &Tensor<B>, target: &Tensor<B>, reduction: Reduction) -> Tensor<B> {
    let run = |[x, t]: [&Tensor<B>; 2]| reduced("soft_margin_loss", &map(SoftMargin, [x, t])?, reduction);
    in_scope("soft_margin_loss", [x, target], |all| widen(all, run)).or_fail()
}

/// 1 - c where t is 1, max(0, c - margin) where it is -1, else 0
#[derive(Clone, Copy, Debug)]
struct Cosine {
    margin: f64,
}

impl Map<2> for Cosine {
    const NAME: &'static str = "cosine_embedding_loss";
    #[inline(always)]
    fn lane<L: Lane>(&self, [c, t]: [L; 2]) -> L {
        let (zero, one) = (L::lit(0.0), L::lit(1.0));
        let apart = L::select(t.eq(-one), positive(c - L::lit(self.margin)), zero);
        L::select(t.eq(one), one - c, apart)
    }
}
elinvar_ops::compile_map! { 2 Cosine; }

/// With c the cosine similarity of x and y over their last axis: 1 - c where the target is 1,
/// max(0, c - margin) where it is -1.
///
/// x, y: [.., d]   target: [..]
///
/// # Panics
/// If shapes or dtypes do not fit, or memory is exhausted.
#[track_caller]
pub fn cosine_embedding_loss<B: Backend>(
    x: &Tensor<B>,
    y: &Tensor<B>,
    target: &Tensor<B>,
    margin: f64,
    reduction: Reduction,
) -> Tensor<B> {
    // PyTorch's constant that keeps the cosine of zero vectors finite.
    const EPS: f64 = 1e-12;
    let run = |[x, y, t]: [&Tensor<B>; 3]| {
        let cosine = op::cosine_similarity(x, y, -1, EPS)?;
        reduced("cosine_embedding_loss", &map(Cosine { margin }, [&cosine, t])?, reduction)
    };
    in_scope("cosine_embedding_loss", [x, y, target], |all| widen(all, run)).or_fail()
}

/// max(0, margin - y + x) to the power of 1 or 2, and 0 for the target's own class
#[derive(Clone, Copy, Debug)]
struct Margin {
    margin: f64,
    squared: bool,
}

impl Map<3> for Margin {
    const NAME: &'static str = "multi_margin_loss";
    #[inline(always)]
    fn lane<L: Lane>(&self, [x, y, own]: [L; 3]) -> L {
        let zero = L::lit(0.0);
        let lacks = positive(L::lit(self.margin) - y + x);
        L::select(own.to_mask(), zero, if self.squared { lacks * lacks } else { lacks })
    }
}
elinvar_ops::compile_map! { 3 Margin; }

/// Multi-class margin loss: sum over i != t of max(0, margin - x\[t\] + x\[i\])^p / c, times
/// `weight[t]`.
///
/// x: [n, c]   target: \[n\] of i64   weight: \[c\]
///
/// # Panics
/// If shapes or dtypes do not fit, `p` is not 1 or 2, a target is not a class, or memory is
/// exhausted.
#[track_caller]
pub fn multi_margin_loss<B: Backend>(
    x: &Tensor<B>,
    target: &Tensor<B>,
    p: u8,
    margin: f64,
    weight: Option<&Tensor<B>>,
    reduction: Reduction,
) -> Tensor<B> {
    const OP: &str = "multi_margin_loss";
    let run = |x: &Tensor<B>| -> Result<Tensor<B>> {
        let [n, c] = *x.dims() else {
            return Err(Error::shape(format!("{OP}: scores {}; they should be [n, c]", x.shape())));
        };
        if target.dims() != [n] {
            return Err(Error::shape(format!("{OP}: targets {}; they should be [{n}]", target.shape())));
        }
        if p != 1 && p != 2 {
            return Err(Error::argument(format!("{OP}: p is {p}; 1 and 2 would fit")));
        }
        let at = op::unsqueeze(target, 1)?;
        let y = op::gather(x, 1, &at)?;
        let classes = Tensor::arange(0, c as i64, 1, x.device());
        let own = op::eq(&at, &classes)?;
        let each = map(Margin { margin, squared: p == 2 }, [x, &y, &own])?;
        let mut losses = op::mean(&each, Some(&[1]), false)?;
        if let Some(w) = weight {
            let w = cast(&op::index_select(w, 0, target)?, w.dtype().compute())?;
            losses = op::mul(&losses, &w)?;
        }
        reduced(OP, &losses, reduction)
    };
    in_scope(OP, [x], |all| widen(all, |[x]| run(x))).or_fail()
}

/// The binary cross entropy of each class, from logits, averaged over the last axis: for
/// multi-label classification.
///
/// x, target: [.., c]   weight: \[c\]
///
/// # Panics
/// If shapes or dtypes do not fit, or memory is exhausted.
#[track_caller]
pub fn multilabel_soft_margin_loss<B: Backend>(
    x: &Tensor<B>,
    target: &Tensor<B>,
    weight: Option<&Tensor<B>>,
    reduction: Reduction,
) -> Tensor<B> {
    let run = |[x, t]: [&Tensor<B>; 2]| {
        let each = op::binary_cross_entropy_with_logits(x, t, weight, None, Reduction::None)?;
        reduced("multilabel_soft_margin_loss", &op::mean(&each, Some(&[-1]), false)?, reduction)
    };
    in_scope("multilabel_soft_margin_loss", [x, target], |all| widen(all, run)).or_fail()
}
