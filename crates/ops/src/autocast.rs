//! Automatic mixed precision: the type in which each op runs inside of an autocast scope.
//!
//! The lists are PyTorch's for processors (`torch.amp`, "Autocast Op Reference", "CPU Op-Specific
//! Behavior", <https://docs.pytorch.org/docs/stable/amp.html>), on every device, so that the same
//! program gives the same bits everywhere. [`TABLE`] is the only place that knows them.
//!
//! An op of the table asks for its operands at its entry, in its own file, and then runs outside of
//! the scope: what it is composed of is not looked up again. All elementwise and row-wise ops
//! promote in one place each ([`mod@crate::map`], [`crate::rows`]). Gradients are never cast by a
//! scope: they run in the types of their forward op, and the gradient of a cast converts back.
//!
//! How it can be wrong: an op of several float operands that checks their types before it asks here
//! is an error in a scope where PyTorch promotes. `lab/conformance/tests/suite/autocast.rs` has a
//! row per op.

use crate::value::{Value, references};
use elinvar_core::{DType, Error, Result};
use std::cell::Cell;

/// The type in which an op runs in an autocast scope. Only operands of f16, bf16 and f32 are ever
/// converted; integers, bool and f64 pass through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// In the scope's 16-bit type.
    Half,
    /// In f32.
    Single,
    /// In the widest type of its operands.
    Widest,
    /// As the first operand: where the others are of another type it runs in f32, and the result
    /// is rounded to the first one's type.
    First,
    /// In the types of its operands, as outside of a scope; if these differ, in the widest, where
    /// an operand without axes does not count beside those that have some.
    Operands,
}

/// The ops that do not run in the types of their operands.
///
/// Layers and losses of the crate `nn` that are no ops of the catalogue are in it by PyTorch's
/// names, and the modes of `pad` likewise.
pub const TABLE: &[(&str, Rule)] = &[
    ("matmul", Rule::Half),
    ("bmm", Rule::Half),
    ("addmm", Rule::Half),
    ("baddbmm", Rule::Half),
    ("addbmm", Rule::Half),
    ("tensordot", Rule::Half),
    ("einsum", Rule::Half),
    ("multi_dot", Rule::Half),
    ("linear", Rule::Half),
    ("conv1d", Rule::Half),
    ("conv2d", Rule::Half),
    ("conv3d", Rule::Half),
    ("conv_transpose1d", Rule::Half),
    ("conv_transpose2d", Rule::Half),
    ("conv_transpose3d", Rule::Half),
    ("scaled_dot_product_attention", Rule::Half),
    ("multi_head_attention", Rule::Half),
    ("rnn_tanh", Rule::Half),
    ("rnn_relu", Rule::Half),
    ("lstm", Rule::Half),
    ("gru", Rule::Half),
    ("prelu", Rule::Half),
    ("affine_grid", Rule::Half),
    ("prod", Rule::Single),
    ("trace", Rule::Single),
    ("reflection_pad1d", Rule::Single),
    ("reflection_pad2d", Rule::Single),
    ("replication_pad1d", Rule::Single),
    ("replication_pad2d", Rule::Single),
    ("replication_pad3d", Rule::Single),
    ("max_pool3d", Rule::Single),
    ("avg_pool3d", Rule::Single),
    ("adaptive_max_pool3d", Rule::Single),
    ("adaptive_avg_pool3d", Rule::Single),
    ("fft", Rule::Single),
    ("ifft", Rule::Single),
    ("fft2", Rule::Single),
    ("ifft2", Rule::Single),
    ("fftn", Rule::Single),
    ("ifftn", Rule::Single),
    ("rfft", Rule::Single),
    ("rfft2", Rule::Single),
    ("rfftn", Rule::Single),
    ("irfft", Rule::Single),
    ("irfft2", Rule::Single),
    ("irfftn", Rule::Single),
    ("stft", Rule::Single),
    ("istft", Rule::Single),
    ("quantile", Rule::Single),
    ("nanquantile", Rule::Single),
    ("cdist", Rule::Single),
    ("grid_sample", Rule::Single),
    ("max_unpool2d", Rule::Single),
    ("max_unpool3d", Rule::Single),
    ("cholesky", Rule::Single),
    ("cholesky_ex", Rule::Single),
    ("solve_triangular", Rule::Single),
    ("solve", Rule::Single),
    ("inv", Rule::Single),
    ("inv_ex", Rule::Single),
    ("lu_factor", Rule::Single),
    ("lu_factor_ex", Rule::Single),
    ("lu", Rule::Single),
    ("lu_solve", Rule::Single),
    ("ldl_factor", Rule::Single),
    ("ldl_factor_ex", Rule::Single),
    ("ldl_solve", Rule::Single),
    ("det", Rule::Single),
    ("slogdet", Rule::Single),
    ("qr", Rule::Single),
    ("householder_product", Rule::Single),
    ("lstsq", Rule::Single),
    ("eigh", Rule::Single),
    ("eigvalsh", Rule::Single),
    ("svd", Rule::Single),
    ("svdvals", Rule::Single),
    ("mse_loss", Rule::Single),
    ("l1_loss", Rule::Single),
    ("smooth_l1_loss", Rule::Single),
    ("huber_loss", Rule::Single),
    ("hinge_embedding_loss", Rule::Single),
    ("binary_cross_entropy", Rule::Single),
    ("binary_cross_entropy_with_logits", Rule::Single),
    ("nll_loss", Rule::Single),
    ("cross_entropy", Rule::Single),
    ("kl_div", Rule::Single),
    ("triplet_margin_loss", Rule::Single),
    ("ctc_loss", Rule::Single),
    ("cosine_embedding_loss", Rule::Single),
    ("margin_ranking_loss", Rule::Single),
    ("multi_margin_loss", Rule::Single),
    ("poisson_nll_loss", Rule::Single),
    ("soft_margin_loss", Rule::Single),
    ("concat", Rule::Widest),
    ("stack", Rule::Widest),
    ("slice_assign", Rule::First),
    ("layer_norm", Rule::First),
    ("rms_norm", Rule::First),
    ("group_norm", Rule::First),
    ("instance_norm", Rule::First),
    ("batch_norm", Rule::First),
];

/// The rule of an op.
pub fn rule(op: &str) -> Rule {
    TABLE.iter().find(|(name, _)| *name == op).map_or(Rule::Operands, |(_, rule)| *rule)
}

thread_local! {
    /// The 16-bit type of the innermost scope of this thread, if it is in one.
    static SCOPE: Cell<Option<DType>> = const { Cell::new(None) };
}

/// Restores the outer scope, also on a panic.
struct Restore(Option<DType>);

impl Drop for Restore {
    fn drop(&mut self) {
        SCOPE.set(self.0);
    }
}

/// The 16-bit type of the innermost scope of this thread, if it is in one.
#[inline]
pub fn of_scope() -> Option<DType> {
    SCOPE.get()
}

/// Runs `f` in a scope of this type, or outside of any.
pub fn within<T>(half: Option<DType>, f: impl FnOnce() -> T) -> T {
    let _restore = Restore(SCOPE.replace(half));
    f()
}

/// Checks that a scope can be of this type.
///
/// # Errors
/// `InvalidArgument` if it is not f16 or bf16.
pub fn check(half: DType) -> Result<()> {
    if is_16_bit(half) {
        return Ok(());
    }
    Err(Error::argument(format!(
        "autocast: to {half}; there are f16 and bf16, and all other types stay what they are"
    )))
}

/// Is it a type that a scope may be of?
pub fn is_16_bit(dtype: DType) -> bool {
    matches!(dtype, DType::F16 | DType::BF16)
}

/// Is an operand of this type converted at all?
fn is_eligible(dtype: DType) -> bool {
    is_16_bit(dtype) || dtype == DType::F32
}

/// The type that holds both exactly.
fn wider(a: DType, b: DType) -> DType {
    if a == b { a } else { DType::F32 }
}

/// The conversions of one op's operands.
#[derive(Clone, Copy, Debug)]
pub struct Casts {
    /// The type of the operands; `None`: they stay what they are.
    to: Option<DType>,
    /// The type to which the result is rounded.
    back: Option<DType>,
}

/// The conversions of the operands of `op` in the scope of this thread; `None` outside of one, and
/// of values that no scope converts.
#[inline]
pub fn casts<V: Value>(op: &str, x: &[Option<&V>]) -> Option<Casts> {
    V::autocast().map(|half| Casts::of(rule(op), half, x))
}

impl Casts {
    #[cold]
    fn of<V: Value>(rule: Rule, half: DType, x: &[Option<&V>]) -> Casts {
        let floats = || x.iter().flatten().filter(|v| is_eligible(v.dtype()));
        let widest = |of: &mut dyn Iterator<Item = &&V>| of.map(|v| v.dtype()).reduce(wider);
        let first = x.first().copied().flatten().map(|v| v.dtype()).filter(|d| is_eligible(*d));
        match rule {
            Rule::Half => Casts { to: Some(half), back: None },
            Rule::Single => Casts { to: Some(DType::F32), back: None },
            Rule::Widest => Casts { to: widest(&mut floats()), back: None },
            Rule::First => {
                let to = widest(&mut floats());
                Casts { to, back: first.filter(|_| to != first) }
            }
            Rule::Operands => {
                let with_axes = widest(&mut floats().filter(|v| v.shape().rank() > 0));
                Casts { to: with_axes.or_else(|| widest(&mut floats())), back: None }
            }
        }
    }
    /// An operand as the op wants it.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub fn on<V: Value>(self, x: &V) -> Result<V> {
        match self.to {
            Some(to) if is_eligible(x.dtype()) && x.dtype() != to => x.autocast_to(to),
            Some(_) | None => Ok(x.clone()),
        }
    }
    /// An operand that may be absent.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub fn on_some<V: Value>(self, x: Option<&V>) -> Result<Option<V>> {
        x.map(|x| self.on(x)).transpose()
    }
    /// A result as the op's rule wants it.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub fn back<V: Value>(self, y: V) -> Result<V> {
        match self.back {
            Some(to) => crate::value::cast(&y, to),
            None => Ok(y),
        }
    }
}

/// Are the operands floats of several types, which a scope makes one?
#[inline]
pub(crate) fn is_mixed<V: Value>(x: &[&V]) -> bool {
    let mut floats = x.iter().map(|v| v.dtype()).filter(|d| is_eligible(*d));
    let first = floats.next();
    floats.any(|d| Some(d) != first)
}

/// Runs an op that is written as a function of its operands: in a scope, on what the scope makes of
/// them.
///
/// # Errors
/// Those of `f`; `OutOfMemory`.
pub fn run<V: Value, const N: usize>(
    op: &str,
    x: [&V; N],
    f: impl FnOnce([&V; N]) -> Result<V>,
) -> Result<V> {
    let scoped = Scoped::of(op, &x)?;
    let y = f(scoped.as_ref().map_or(x, |s| references(&s.operands)))?;
    match scoped {
        Some(s) => s.casts.back(y),
        None => Ok(y),
    }
}

/// What a scope makes of an op's operands: the part of [`run`] that does not depend on the op. No
/// scope is around this thread until it is dropped.
struct Scoped<V> {
    casts: Casts,
    operands: Vec<V>,
    _outside: Restore,
}

impl<V: Value> Scoped<V> {
    fn of(op: &str, x: &[&V]) -> Result<Option<Self>> {
        let Some(half) = V::autocast() else { return Ok(None) };
        let operands: Vec<Option<&V>> = x.iter().copied().map(Some).collect();
        let casts = Casts::of(rule(op), half, &operands);
        let mut operands = Vec::with_capacity(x.len());
        for v in x {
            operands.push(casts.on(*v)?);
        }
        Ok(Some(Scoped { casts, operands, _outside: Restore(SCOPE.replace(None)) }))
    }
}

/// The same of an op of any number of operands.
///
/// # Errors
/// Those of `f`; `OutOfMemory`.
pub fn run_all<V: Value>(op: &str, x: &[&V], f: impl FnOnce(&[&V]) -> Result<V>) -> Result<V> {
    let Some(scoped) = Scoped::of(op, x)? else { return f(x) };
    scoped.casts.back(f(&scoped.operands.iter().collect::<Vec<_>>())?)
}

/// The entry of an op of the table, whose values are of type `V`: in a scope its operands (those
/// after the semicolon may be absent) are converted, and it is run again outside of the scope. With
/// `back`, its result is rounded as the rule says.
macro_rules! autocast {
    ($op:expr, $x:ident $(; $($maybe:ident),+)? => back $again:expr) => {
        if let Some(casts) = $crate::autocast::casts($op, &[Some($x), $($($maybe,)+)?]) {
            let $x = &casts.on($x)?;
            $($(let $maybe = casts.on_some($maybe)?; let $maybe = $maybe.as_ref();)+)?
            return casts.back($crate::autocast::within(None, || $again)?);
        }
    };
    ($op:expr, $($x:ident),+ $(; $($maybe:ident),+)? => $again:expr) => {
        if let Some(casts) = $crate::autocast::casts($op, &[$(Some($x),)+ $($($maybe,)+)?]) {
            $(let $x = &casts.on($x)?;)+
            $($(let $maybe = casts.on_some($maybe)?; let $maybe = $maybe.as_ref();)+)?
            return $crate::autocast::within(None, || $again);
        }
    };
}
pub(crate) use autocast;
