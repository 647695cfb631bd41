//! Losses: functions of what a network gave and of targets, and the same with settings,
//! `Huber::new().delta(0.5).of(&x, &target)`. Arguments are in one order: operands, options, the
//! reduction.
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
pub use elinvar_ops::catalogue::reduction::Reduction;
use elinvar_tensor::{Integer, Tensor};
use std::marker::PhantomData;

/// The default class of ignored targets, as in PyTorch.
const IGNORED: i64 = -100;

/// A row is a signature without its first operand, the network's result; it is a method of that
/// tensor.
macro_rules! losses {
    ($($(#[$doc:meta])* fn $name:ident($($arg:ident: $t:ty),*);)*) => {$(
        $(#[$doc])*
        ///
        /// # Panics
        /// If shapes, dtypes or settings do not fit, or memory is exhausted.
        #[track_caller]
        pub fn $name<B: Backend>(x: &Tensor<B>, $($arg: $t),*) -> Tensor<B> {
            x.$name($($arg),*)
        }
    )*};
}

losses! {
    /// (x - target)^2
    fn mse_loss(target: &Tensor<B>, reduction: Reduction);
    /// |x - target|
    fn l1_loss(target: &Tensor<B>, reduction: Reduction);
    /// With d = |x - target|: d^2 / (2 beta) below beta, else d - beta / 2.
    fn smooth_l1_loss(target: &Tensor<B>, beta: f64, reduction: Reduction);
    /// With d = |x - target|: d^2 / 2 below delta, else delta * (d - delta / 2).
    fn huber_loss(target: &Tensor<B>, delta: f64, reduction: Reduction);
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
    fn kl_div(target: &Tensor<B>, log_target: bool, reduction: Reduction);
    /// x where target is 1, max(0, margin - x) where it is -1.
    fn hinge_embedding_loss(target: &Tensor<B>, margin: f64, reduction: Reduction);
    /// The cosine similarity of x and y along an axis; the product of their norms is at least
    /// `eps`.
    fn cosine_similarity(y: &Tensor<B>, dim: impl Integer, eps: f64);
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
        zero_infinity: bool, reduction: Reduction
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

/// A row is a loss with settings: tensors that may be absent, then numbers with PyTorch's defaults;
/// each has a setter. The reduction is the mean unless another is asked for.
macro_rules! settings {
    ($($(#[$doc:meta])* $type:ident = $method:ident
        [$($(#[$tensor_doc:meta])* $tensor:ident),*]
        [$($(#[$number_doc:meta])* $number:ident: $t:ty = $default:expr),*];)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug)]
        pub struct $type<B: Backend> {
            $($tensor: Option<Tensor<B>>,)*
            $($number: $t,)*
            reduction: Reduction,
            backend: PhantomData<B>,
        }

        impl<B: Backend> $type<B> {
            /// With the default settings, and the mean as reduction.
            pub fn new() -> Self {
                $type {
                    $($tensor: None,)*
                    $($number: $default,)*
                    reduction: Reduction::Mean,
                    backend: PhantomData,
                }
            }
            $($(#[$tensor_doc])*
            #[must_use]
            pub fn $tensor(mut self, $tensor: &Tensor<B>) -> Self {
                self.$tensor = Some($tensor.clone());
                self
            })*
            $($(#[$number_doc])*
            #[must_use]
            pub fn $number(mut self, $number: $t) -> Self {
                self.$number = $number;
                self
            })*
            /// The reduction of the losses. Default: the mean.
            #[must_use]
            pub fn reduction(mut self, reduction: Reduction) -> Self {
                self.reduction = reduction;
                self
            }
            /// The loss of what a network gave, and targets.
            ///
            /// # Panics
            /// If shapes, dtypes or settings do not fit, a target is not a class, or memory is
            /// exhausted.
            #[track_caller]
            pub fn of(&self, x: &Tensor<B>, target: &Tensor<B>) -> Tensor<B> {
                x.$method(target, $(self.$tensor.as_ref(),)* $(self.$number,)* self.reduction)
            }
        }

        impl<B: Backend> Default for $type<B> {
            fn default() -> Self {
                Self::new()
            }
        }
    )*};
}

settings! {
    /// Cross entropy of logits x: [n, c, ..] and targets: classes (i64, [n, ..]) or probabilities
    /// (as x).
    CrossEntropy = cross_entropy [
        /// The weight of each class: \[c\].
        weight
    ] [
        /// Ignores targets of this class. Default: -100.
        ignore_index: i64 = IGNORED,
        /// Label smoothing: the weight of a uniform distribution in the targets. Default: 0.
        label_smoothing: f64 = 0.0
    ];
    /// [`nll_loss`] with settings.
    Nll = nll_loss [
        /// The weight of each class: \[c\].
        weight
    ] [
        /// Ignores targets of this class. Default: -100.
        ignore_index: i64 = IGNORED
    ];
    /// [`mse_loss`] with settings.
    Mse = mse_loss [] [];
    /// [`l1_loss`] with settings.
    L1 = l1_loss [] [];
    /// [`smooth_l1_loss`] with settings.
    SmoothL1 = smooth_l1_loss [] [
        /// Below it the loss is quadratic. Default: 1.
        beta: f64 = 1.0
    ];
    /// [`huber_loss`] with settings.
    Huber = huber_loss [] [
        /// Below it the loss is quadratic. Default: 1.
        delta: f64 = 1.0
    ];
    /// [`binary_cross_entropy`] with settings.
    BinaryCrossEntropy = binary_cross_entropy [
        /// The weight of each element.
        weight
    ] [];
    /// [`binary_cross_entropy_with_logits`] with settings.
    BinaryCrossEntropyWithLogits = binary_cross_entropy_with_logits [
        /// The weight of each element.
        weight,
        /// The weight of the positive examples of each class.
        pos_weight
    ] [];
    /// [`kl_div`] with settings.
    KlDiv = kl_div [] [
        /// Are the targets logarithms too? Default: no.
        log_target: bool = false
    ];
    /// [`hinge_embedding_loss`] with settings.
    HingeEmbedding = hinge_embedding_loss [] [
        /// How far apart a pair should be. Default: 1.
        margin: f64 = 1.0
    ];
}
