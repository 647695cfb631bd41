//! Losses: the catalogue's functions on tensors. A row of the table is a signature.
//!
//! The rarer ones are formulas over a few ops, in `formulas`.
//!
//! They panic on a programming error, as the methods of a tensor do; [`elinvar_tensor::try_run`]
//! returns the error instead.

mod formulas;

pub use formulas::{
    cosine_embedding_loss, gaussian_nll_loss, margin_ranking_loss, multi_margin_loss,
    multilabel_soft_margin_loss, poisson_nll_loss, soft_margin_loss,
};

use elinvar_ops::Backend;
use elinvar_ops::catalogue as op;
pub use elinvar_ops::catalogue::reduction::Reduction;
use elinvar_tensor::{OrFail, Tensor};

/// The default class of ignored targets, as in PyTorch.
const IGNORED: i64 = -100;

macro_rules! losses {
    ($($(#[$doc:meta])* fn $name:ident($($arg:ident: $t:ty),*);)*) => {$(
        $(#[$doc])*
        ///
        /// # Panics
        /// If shapes, dtypes or settings do not fit, or memory is exhausted.
        #[track_caller]
        pub fn $name<B: Backend>(x: &Tensor<B>, $($arg: $t),*) -> Tensor<B> {
            op::$name(x, $($arg),*).or_fail()
        }
    )*};
}

losses! {
    /// (x - target)^2
    fn mse_loss(target: &Tensor<B>, reduction: Reduction);
    /// |x - target|
    fn l1_loss(target: &Tensor<B>, reduction: Reduction);
    /// With d = |x - target|: d^2 / (2 beta) below beta, else d - beta / 2.
    fn smooth_l1_loss(target: &Tensor<B>, reduction: Reduction, beta: f64);
    /// With d = |x - target|: d^2 / 2 below delta, else delta * (d - delta / 2).
    fn huber_loss(target: &Tensor<B>, reduction: Reduction, delta: f64);
    /// `-weight[target] * x[target]`; x holds log-probabilities.
    fn nll_loss(target: &Tensor<B>, weight: Option<&Tensor<B>>, ignore_index: i64, reduction: Reduction);
    /// -(target log x + (1 - target) log(1 - x)), each logarithm at least -100. All of x must be in
    /// 0..=1; to look at it synchronises with the device.
    fn binary_cross_entropy(target: &Tensor<B>, weight: Option<&Tensor<B>>, reduction: Reduction);
    /// [`binary_cross_entropy`] of sigmoid(x), without overflow.
    fn binary_cross_entropy_with_logits(
        target: &Tensor<B>, weight: Option<&Tensor<B>>, pos_weight: Option<&Tensor<B>>, reduction: Reduction
    );
    /// target * (log target - x); x holds log-probabilities.
    fn kl_div(target: &Tensor<B>, reduction: Reduction, log_target: bool);
    /// x where target is 1, max(0, margin - x) where it is -1.
    fn hinge_embedding_loss(target: &Tensor<B>, reduction: Reduction, margin: f64);
    /// The cosine similarity of x and y along an axis; the product of their norms is at least
    /// `eps`.
    fn cosine_similarity(y: &Tensor<B>, dim: isize, eps: f64);
    /// max(0, margin + d(x, positive) - d(x, negative)) over the last axis, with d the `p`-norm of
    /// the difference + eps. With `swap`, d(positive, negative) is used instead of d(x, negative)
    /// where it is less.
    fn triplet_margin_loss(
        positive: &Tensor<B>, negative: &Tensor<B>, margin: f64, p: f64, eps: f64, swap: bool, reduction: Reduction
    );
    /// The negative log-likelihood of label sequences, summed over all alignments in time.
    ///
    /// x: [t, n, c] log-probabilities   targets: [n, s] of i64
    /// input_lengths, target_lengths: \[n\] of i64
    fn ctc_loss(
        targets: &Tensor<B>, input_lengths: &Tensor<B>, target_lengths: &Tensor<B>, blank: usize,
        reduction: Reduction, zero_infinity: bool
    );
}

/// The mean cross entropy of logits x: [n, c, ..] and targets: classes (i64, [n, ..]) or
/// probabilities (as x). [`CrossEntropy`] has settings.
///
/// # Panics
/// If shapes or dtypes do not fit, a target is not a class, or memory is exhausted.
#[track_caller]
pub fn cross_entropy<B: Backend>(x: &Tensor<B>, target: &Tensor<B>) -> Tensor<B> {
    CrossEntropy::new().of(x, target)
}

/// Cross entropy with settings.
#[derive(Clone, Debug)]
pub struct CrossEntropy<B: Backend> {
    weight: Option<Tensor<B>>,
    ignore_index: i64,
    reduction: Reduction,
    label_smoothing: f64,
}

impl<B: Backend> CrossEntropy<B> {
    /// The mean, without class weights, label smoothing or an ignored class.
    pub fn new() -> Self {
        CrossEntropy { weight: None, ignore_index: IGNORED, reduction: Reduction::Mean, label_smoothing: 0.0 }
    }
    /// The weight of each class: \[c\].
    #[must_use]
    pub fn weight(mut self, weight: &Tensor<B>) -> Self {
        self.weight = Some(weight.clone());
        self
    }
    /// Ignores targets of this class.
    #[must_use]
    pub fn ignore_index(mut self, class: i64) -> Self {
        self.ignore_index = class;
        self
    }
    /// The reduction: mean, sum, or none.
    #[must_use]
    pub fn reduction(mut self, reduction: Reduction) -> Self {
        self.reduction = reduction;
        self
    }
    /// Label smoothing: the weight of a uniform distribution in the targets.
    #[must_use]
    pub fn label_smoothing(mut self, part: f64) -> Self {
        self.label_smoothing = part;
        self
    }
    /// The loss of logits x: [n, c, ..] and targets: classes (i64, [n, ..]) or probabilities
    /// (as x).
    ///
    /// # Panics
    /// If shapes, dtypes or settings do not fit, a target is not a class, or memory is exhausted.
    #[track_caller]
    pub fn of(&self, x: &Tensor<B>, target: &Tensor<B>) -> Tensor<B> {
        let weight = self.weight.as_ref();
        op::cross_entropy(x, target, weight, self.ignore_index, self.reduction, self.label_smoothing)
            .or_fail()
    }
}

impl<B: Backend> Default for CrossEntropy<B> {
    fn default() -> Self {
        CrossEntropy::new()
    }
}
