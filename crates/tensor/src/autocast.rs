//! Autocast scopes: ops in 16 bits where that is enough, and f32 elsewhere.
//!
//! Which op runs in which type is in [`elinvar_ops::autocast`]. Here is the scope of a thread, with
//! the conversions of variables that it has made: a weight that several ops read is converted once,
//! by one op on the tape, so that the gradients of all its uses are added in 16 bits, latest use
//! first, and converted to f32 once.
//!
//! How it can be wrong: a conversion of a weight that has changed since. It is kept together with
//! the elements it was made from; memory that is held here is never written, so an optimiser's step
//! inside of the scope gives the weight other memory.

use crate::Tensor;
use crate::tape::is_grad_enabled;
use elinvar_core::{DType, Result};
use elinvar_ops::array::Array;
use elinvar_ops::autocast::{check, is_16_bit, of_scope, within};
use elinvar_ops::backend::Backend;
use elinvar_ops::catalogue;
use std::any::Any;
use std::cell::RefCell;
use std::collections::HashMap;

/// Which conversion: of the variable of this id, to this type, on the tape or not.
type Key = (u64, DType, bool);

/// A variable's elements, and their conversion.
struct Converted<B: Backend> {
    from: Array<B>,
    to: Tensor<B>,
}

type Cache = HashMap<Key, Box<dyn Any>>;

thread_local! {
    /// The conversions of the outermost scope of this thread; `None` outside of any.
    static CACHE: RefCell<Option<Cache>> = const { RefCell::new(None) };
}

/// Puts the conversions of an outer scope back, also on a panic.
struct Restore(Option<Cache>);

impl Drop for Restore {
    fn drop(&mut self) {
        // What is dropped here may be the last handle on a tape: not while the cell is borrowed.
        drop(CACHE.replace(self.0.take()));
    }
}

/// Runs `f` with automatic mixed precision: matrix products, convolutions and attention compute in
/// `half` (their sums in f32, see the reference on numerics), losses in f32, and everything else in
/// the types of its operands, of which the widest counts. The table of all ops is
/// [`elinvar_ops::autocast::TABLE`].
///
/// Parameters stay in f32, and so do their gradients: an op converts what it reads, and the
/// gradient of the conversion converts back. A variable is converted once per outermost scope.
/// Call [`Tensor::backward`] outside of the scope, as with PyTorch; inside it does the same.
///
/// Scopes are of one thread, may be nested, and end with a panic.
///
/// ```
/// use elinvar_core::DType;
/// use elinvar_reference::ReferenceDevice as Device;
/// use elinvar_tensor::{Tensor, autocast};
///
/// let w = Tensor::new([[1.0f32, 2.0], [3.0, 4.0]], &Device).requires_grad();
/// let x = Tensor::new([[0.1f32, 0.2]], &Device);
/// let loss = autocast(DType::BF16, || {
///     let y = x.matmul(&w);
///     assert_eq!(y.dtype(), DType::BF16);
///     (&y + &x).mse_loss(&x, elinvar_ops::catalogue::reduction::Reduction::Mean)
/// });
/// assert_eq!(loss.dtype(), DType::F32);
/// assert_eq!(loss.backward().get(&w).unwrap().dtype(), DType::F32);
/// ```
///
/// # Panics
/// If `half` is not f16 or bf16.
#[track_caller]
pub fn autocast<T>(half: DType, f: impl FnOnce() -> T) -> T {
    match check(half) {
        Ok(()) => scope(Some(half), f),
        Err(e) => crate::fail::fail(e),
    }
}

/// [`autocast`], which returns its error; `f` is then not called.
///
/// # Errors
/// `InvalidArgument` if `half` is not f16 or bf16.
pub fn try_autocast<T>(half: DType, f: impl FnOnce() -> T) -> Result<T> {
    check(half)?;
    Ok(scope(Some(half), f))
}

/// Runs `f` outside of the [`autocast`] scopes of this thread: ops compute in the types of their
/// operands, which must be of one type. PyTorch's `autocast(enabled=False)`.
pub fn autocast_off<T>(f: impl FnOnce() -> T) -> T {
    within(None, f)
}

/// The type of the innermost [`autocast`] scope of this thread, if it is in one.
pub fn autocast_dtype() -> Option<DType> {
    of_scope()
}

fn scope<T>(half: Option<DType>, f: impl FnOnce() -> T) -> T {
    let is_outermost = CACHE.with_borrow(Option::is_none);
    let _end = is_outermost.then(|| Restore(CACHE.replace(Some(Cache::new()))));
    within(half, f)
}

/// Runs `f` in a scope of this type with conversions of its own: for work that is done at another
/// time than its surroundings. `None`: outside of any scope.
#[doc(hidden)]
pub fn isolated<T>(half: Option<DType>, f: impl FnOnce() -> T) -> T {
    let _end = Restore(CACHE.replace(half.map(|_| Cache::new())));
    within(half, f)
}

/// `x` in another type: a variable's conversion from before, if there is one.
pub(crate) fn converted<B: Backend>(x: &Tensor<B>, to: DType) -> Result<Tensor<B>> {
    let id = match x.node() {
        Some(node) if node.is_leaf() && is_16_bit(to) => node.id,
        Some(_) | None => return catalogue::cast(x, to),
    };
    let key = (id, to, is_grad_enabled());
    let known = CACHE.with_borrow(|cache| {
        let known = cache.as_ref()?.get(&key)?.downcast_ref::<Converted<B>>()?;
        let is_same = known.from.shares_memory_with(x.array()) && known.from.layout() == x.array().layout();
        is_same.then(|| known.to.clone())
    });
    if let Some(known) = known {
        return Ok(known);
    }
    let new = catalogue::cast(x, to)?;
    let kept = Box::new(Converted { from: x.array().clone(), to: new.clone() });
    let old = CACHE.with_borrow_mut(|cache| cache.as_mut().and_then(|all| all.insert(key, kept)));
    drop(old);
    Ok(new)
}
