//! Losses, as methods of what a network gave. Operands come first, then options, then the
//! reduction.

use super::table::methods;
use crate::Tensor;
use crate::fail::OrFail;
use elinvar_core::Result;
use elinvar_ops::backend::Backend;
use elinvar_ops::catalogue as op;
use op::reduction::Reduction;

methods! {
    /// (x - target)^2, reduced.
    fn mse_loss, try_mse_loss(target: &Tensor<B>, reduction: Reduction) -> Tensor<B> =
        |x| op::mse_loss(x, target, reduction);
    /// |x - target|, reduced.
    fn l1_loss, try_l1_loss(target: &Tensor<B>, reduction: Reduction) -> Tensor<B> =
        |x| op::l1_loss(x, target, reduction);
    /// With d = |x - target|: d^2 / (2 beta) below beta, else d - beta / 2; reduced.
    fn smooth_l1_loss, try_smooth_l1_loss(target: &Tensor<B>, beta: f64, reduction: Reduction) -> Tensor<B> =
        |x| op::smooth_l1_loss(x, target, reduction, beta);
    /// With d = |x - target|: d^2 / 2 below delta, else delta * (d - delta / 2); reduced.
    fn huber_loss, try_huber_loss(target: &Tensor<B>, delta: f64, reduction: Reduction) -> Tensor<B> =
        |x| op::huber_loss(x, target, reduction, delta);
    /// x where target is 1, max(0, margin - x) where it is -1; reduced.
    fn hinge_embedding_loss, try_hinge_embedding_loss(
        target: &Tensor<B>, margin: f64, reduction: Reduction
    ) -> Tensor<B> = |x| op::hinge_embedding_loss(x, target, reduction, margin);
    /// -(target log x + (1 - target) log(1 - x)), each logarithm at least -100; reduced.
    fn binary_cross_entropy, try_binary_cross_entropy(
        target: &Tensor<B>, weight: Option<&Tensor<B>>, reduction: Reduction
    ) -> Tensor<B> = |x| op::binary_cross_entropy(x, target, weight, reduction);
    /// [`Tensor::binary_cross_entropy`] of sigmoid(x), without overflow.
    fn binary_cross_entropy_with_logits, try_binary_cross_entropy_with_logits(
        target: &Tensor<B>, weight: Option<&Tensor<B>>, pos_weight: Option<&Tensor<B>>, reduction: Reduction
    ) -> Tensor<B> = |x| op::binary_cross_entropy_with_logits(x, target, weight, pos_weight, reduction);
    /// `-weight[target] * x[target]` of log-probabilities x, reduced.
    fn nll_loss, try_nll_loss(
        target: &Tensor<B>, weight: Option<&Tensor<B>>, ignore_index: i64, reduction: Reduction
    ) -> Tensor<B> = |x| op::nll_loss(x, target, weight, ignore_index, reduction);
    /// The cross entropy of the target distribution, or class, and softmax(x), reduced.
    fn cross_entropy, try_cross_entropy(
        target: &Tensor<B>, weight: Option<&Tensor<B>>, ignore_index: i64, label_smoothing: f64,
        reduction: Reduction
    ) -> Tensor<B> = |x| op::cross_entropy(x, target, weight, ignore_index, reduction, label_smoothing);
    /// target * (log target - x) of log-probabilities x, reduced.
    fn kl_div, try_kl_div(target: &Tensor<B>, log_target: bool, reduction: Reduction) -> Tensor<B> =
        |x| op::kl_div(x, target, reduction, log_target);
    /// max(0, margin + d(x, positive) - d(x, negative)) over the last axis, with d the `p`-norm of
    /// the difference + eps; with `swap`, d(positive, negative) instead where it is less. Reduced.
    fn triplet_margin_loss, try_triplet_margin_loss(
        positive: &Tensor<B>, negative: &Tensor<B>, margin: f64, p: f64, eps: f64, swap: bool, reduction: Reduction
    ) -> Tensor<B> = |x| op::triplet_margin_loss(x, positive, negative, margin, p, eps, swap, reduction);
    /// The negative log-likelihood of label sequences under log-probabilities x [t, n, c], summed
    /// over all alignments in time; reduced.
    fn ctc_loss, try_ctc_loss(
        targets: &Tensor<B>, input_lengths: &Tensor<B>, target_lengths: &Tensor<B>, blank: usize,
        zero_infinity: bool, reduction: Reduction
    ) -> Tensor<B> = |x| op::ctc_loss(x, targets, input_lengths, target_lengths, blank, reduction, zero_infinity);
}
