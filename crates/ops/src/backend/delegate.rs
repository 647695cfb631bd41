//! Backends that hand their work on to others: one that is chosen at run time, one that changes or
//! counts results, one that has kernels for a part of the work.
//!
//! [`delegate_backend!`](crate::delegate_backend) writes the methods of [`Memory`] and
//! [`Compute`](super::Compute) that a backend does not write itself. They call the functions of
//! this module, one for each kind of work, which pass on views of the other backend's memory and
//! take back its results. Both come from the tables beside the traits, so that a new kind of work
//! is a row there, and no line in any backend that delegates.

use super::profiled::{attention_flops, bytes_of, bytes_of_results, multiply_adds, running};
use super::{Backend, Memory, Placed, View};
use crate::map::Out;
use elinvar_core::profile::{Cost, Kind as Event};
use elinvar_core::{DType, Result};
use smallvec::SmallVec;

mod by_hand;
pub use by_hand::*;

/// How a backend hands work on to backend `B`.
pub trait Delegate<B: Backend>: Memory {
    /// The other backend's memory in this one's.
    fn inner(buffer: &Self::Buffer) -> &B::Buffer;
    /// The same, to be changed.
    fn inner_mut(buffer: &mut Self::Buffer) -> &mut B::Buffer;
    /// Takes the results of a call. `sizes`: dtype and number of elements of each.
    ///
    /// # Errors
    /// Those of what it does with them.
    fn results<const N: usize>(
        d: &Self::Device,
        kind: Kind,
        y: [B::Buffer; N],
        sizes: impl FnOnce() -> [(DType, usize); N],
    ) -> Result<[Self::Buffer; N]>;
}

/// A view of the other backend.
#[inline]
pub fn view<'a, S: Delegate<B>, B: Backend>(x: &View<'a, S>) -> View<'a, B> {
    View { buffer: S::inner(x.buffer), layout: x.layout, dtype: x.dtype }
}

/// Views of the other backend. A list of one or two is filled in place: an op on a few numbers
/// would notice a loop.
pub enum Views<'a, B: Backend> {
    /// One.
    One([View<'a, B>; 1]),
    /// Two.
    Two([View<'a, B>; 2]),
    /// Any number.
    Many(SmallVec<[View<'a, B>; 6]>),
}

impl<'a, B: Backend> Views<'a, B> {
    /// Of these.
    #[inline]
    pub fn of<S: Delegate<B>>(x: &[View<'a, S>]) -> Self {
        match x {
            [x] => Views::One([view(x)]),
            [x, y] => Views::Two([view(x), view(y)]),
            _ => Views::Many(x.iter().map(view).collect()),
        }
    }
}

impl<'a, B: Backend> std::ops::Deref for Views<'a, B> {
    type Target = [View<'a, B>];
    #[inline]
    fn deref(&self) -> &[View<'a, B>] {
        match self {
            Views::One(x) => x,
            Views::Two(x) => x,
            Views::Many(x) => x,
        }
    }
}

/// The dtype in which a map's result is stored.
fn stored(out: Out, dtype: DType) -> DType {
    match out {
        Out::Same => dtype,
        Out::Bool => DType::Bool,
    }
}

/// The number of elements of these axes.
fn area(dims: &[usize]) -> usize {
    dims.iter().product()
}

/// An operand as it is given to the other backend.
macro_rules! given {
    (view $x:ident) => {
        view::<S, B>(&$x)
    };
    (views $x:ident) => {
        &Views::<B>::of::<S>($x)
    };
    (maybe $x:ident) => {
        $x.as_ref().map(view::<S, B>)
    };
    (buffer $x:ident) => {
        S::inner($x)
    };
    (($t:ty) $x:ident) => {
        $x
    };
}

/// The type of an operand.
macro_rules! argument {
    (view) => { View<'_, S> };
    (views) => { &[View<'_, S>] };
    (maybe) => { Option<View<'_, S>> };
    (buffer) => { &S::Buffer };
    (($t:ty)) => { $t };
}

/// The type of what a function returns, and that from what the other backend returns.
macro_rules! returned {
    (type one $sizes:tt) => { Result<S::Buffer> };
    (type placed $sizes:tt) => { Result<Placed<S::Buffer>> };
    (type two $sizes:tt) => { Result<(S::Buffer, S::Buffer)> };
    (type three $sizes:tt) => { Result<(S::Buffer, S::Buffer, S::Buffer)> };
    ($d:ident $kind:ident $y:ident one [$size:expr]) => {{
        let [y] = S::results($d, Kind::$kind, [$y?], || [$size])?;
        Ok(y)
    }};
    ($d:ident $kind:ident $y:ident placed [$size:expr]) => {{
        let Placed { buffer, layout } = $y?;
        let [buffer] = S::results($d, Kind::$kind, [buffer], || [$size])?;
        Ok(Placed { buffer, layout })
    }};
    ($d:ident $kind:ident $y:ident two [$a:expr, $b:expr]) => {{
        let (a, b) = $y?;
        let [a, b] = S::results($d, Kind::$kind, [a, b], || [$a, $b])?;
        Ok((a, b))
    }};
    ($d:ident $kind:ident $y:ident three [$a:expr, $b:expr, $c:expr]) => {{
        let (a, b, c) = $y?;
        let [a, b, c] = S::results($d, Kind::$kind, [a, b, c], || [$a, $b, $c])?;
        Ok((a, b, c))
    }};
}

/// The functions of this module, from a table.
macro_rules! functions {
    (
        ()
        values { $($kind:ident $name:ident $generics:tt $args:tt -> $how:ident $sizes:tt;)* }
        others { $($other:ident $other_generics:tt $other_args:tt -> $other_how:ident $other_type:tt;)* }
    ) => {
        $(function! { ($kind) $name $generics $args -> $how $sizes })*
        $(function! { () $other $other_generics $other_args -> $other_how $other_type })*
    };
}

macro_rules! function {
    ($kind:tt $name:ident $generics:tt $args:tt -> hand $type:tt) => {};
    (() $name:ident [] ($($arg:ident: $form:tt),*) -> plain ($type:ty)) => {
        #[doc = concat!("Hands `", stringify!($name), "` on.")]
        #[inline]
        pub fn $name<S: Delegate<B>, B: Backend>(
            _: &S::Device,
            inner: &B::Device
            $(, $arg: argument!($form))*
        ) -> $type {
            let _running = waiting!($name B inner);
            B::$name(inner $(, given!($form $arg))*)
        }
    };
    (
        ($kind:ident) $name:ident [$($g:ident: $bound:path)?] ($($arg:ident: $form:tt),*)
            -> $how:ident $sizes:tt
    ) => {
        #[doc = concat!("Hands `", stringify!($name), "` on.")]
        ///
        /// # Errors
        /// Those of the other backend.
        #[inline]
        pub fn $name<S: Delegate<B>, B: Backend $(, $g: $bound)?>(
            d: &S::Device,
            inner: &B::Device
            $(, $arg: argument!($form))*
        ) -> returned!(type $how $sizes) {
            let running = running::<B>(inner, Event::Work, stringify!($name), || Cost {
                bytes: bytes_of_results(&$sizes) $(+ read!($form $arg))*,
                flops: flops!($name $($arg)*),
            });
            let y = B::$name::<$($g)?>(inner $(, given!($form $arg))*);
            drop(running);
            returned!(d $kind y $how $sizes)
        }
    };
}

crate::memory_table! { [functions] }
crate::compute_table! { [functions] }

/// The enum of all rows of the tables that have values.
macro_rules! kinds {
    (
        (
            values { $($memory:ident $memory_name:ident $a:tt $b:tt -> $c:ident $d:tt;)* }
            others $memory_others:tt
        )
        values { $($kind:ident $name:ident $e:tt $f:tt -> $g:ident $h:tt;)* }
        others $others:tt
    ) => {
        /// The kinds of work that have values.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Kind {
            $(#[doc = concat!("[`Memory::", stringify!($memory_name), "`]")] $memory,)*
            $(#[doc = concat!("[`Compute::", stringify!($name), "`](super::Compute::", stringify!($name), ")")] $kind,)*
        }
        impl Kind {
            /// All of them.
            pub const ALL: &'static [Kind] = &[$(Kind::$memory,)* $(Kind::$kind,)*];
        }
    };
}

macro_rules! kinds_after_memory {
    (() $($rows:tt)*) => {
        crate::compute_table! { [kinds] $($rows)* }
    };
}
crate::memory_table! { [kinds_after_memory] }

impl Kind {
    /// Is it a transfer between host and device?
    pub const fn is_transfer(self) -> bool {
        matches!(self, Kind::Upload | Kind::Download)
    }
}

/// Names for the types in the tables, where the macros below are used.
#[doc(hidden)]
pub mod types {
    pub use crate::backend::*;
    pub use crate::casting::Casting;
    pub use crate::fold::Folding;
    pub use crate::map::{IntMapObject, MapObject};
    pub use crate::rows::RowObject;
    pub use crate::update::UpdateObject;
    pub use elinvar_core::philox::Stream;
    pub use elinvar_core::{
        DType, HostData, Layout, MemoryStats, NativeWork, Precision, Result, Scalar, Shape,
    };
}

/// Writes the methods by which a backend hands its work on: all that are not named after `except`,
/// which the braces have. `on` is a macro that is given the device and a call, and passes the call
/// to [`hand_over!`](crate::hand_over) with the other backend and its device.
///
/// ```ignore
/// macro_rules! on {
///     ($d:ident $call:tt) => {
///         elinvar_ops::hand_over!(Reference, &ReferenceDevice, $d $call)
///     };
/// }
/// elinvar_ops::delegate_backend! {
///     impl [] Memory for Mine, by on, except [receive] {
///         type Device = MyDevice;
///         type Buffer = HostData;
///         const NAME: &'static str = "mine";
///         fn receive(_: &MyDevice, _: &MyDevice, _: View<'_, Self>) -> Result<Option<HostData>> {
///             Ok(None)
///         }
///     }
///     impl [] Compute for Mine, by on, except [] {}
/// }
/// ```
#[macro_export]
macro_rules! delegate_backend {
    ($(
        impl [$($g:tt)*] $trait:ident for $backend:ty, by $on:ident, except [$($except:ident),*] { $($items:tt)* }
    )*) => {
        $($crate::delegate_backend! { @$trait [$($g)*] [$backend] $on [$($except)*] { $($items)* } })*
    };
    (@Memory $($given:tt)*) => {
        $crate::memory_table! { [$crate::delegating_impl] [$] Memory $($given)* }
    };
    (@Compute $($given:tt)*) => {
        $crate::compute_table! { [$crate::delegating_impl] [$] Compute $($given)* }
    };
}

/// Hands a call on to a backend and its device, with the functions of
/// [`delegate`](crate::backend::delegate).
#[macro_export]
macro_rules! hand_over {
    ($backend:ty, $inner:expr, $d:ident { $name:ident [$($g:ident)?] ($($arg:ident),*) }) => {
        $crate::backend::delegate::$name::<Self, $backend $(, $g)?>($d, $inner $(, $arg)*)
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! delegating_impl {
    (
        ([$dollar:tt] $trait:ident [$($g:tt)*] [$backend:ty] $on:ident [$($except:ident)*] { $($items:tt)* })
        values { $($kind:ident $name:ident $generics:tt $args:tt -> $how:ident $sizes:tt;)* }
        others { $($other:ident $other_generics:tt $other_args:tt -> $other_how:ident $other_type:tt;)* }
    ) => {
        macro_rules! unless_written {
            $(($except $dollar($dollar rest:tt)*) => {};)*
            ($dollar name:ident $dollar($dollar rest:tt)*) => { $dollar($dollar rest)* };
        }
        impl<$($g)*> $crate::backend::$trait for $backend {
            $($items)*
            $(unless_written! { $name $crate::delegating_method! { $on $name $generics $args -> $how $sizes } })*
            $(unless_written! {
                $other $crate::delegating_method! { $on $other $other_generics $other_args -> $other_how $other_type }
            })*
        }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! delegating_method {
    (
        $on:ident $name:ident [$($g:ident: $bound:path)?] ($($arg:ident: $form:tt),*) -> $how:ident $sizes:tt
    ) => {
        // Not `#[inline]`: a crate that calls it would compile every backend behind it once more.
        fn $name$(<$g: $bound>)?(
            d: &Self::Device
            $(, $arg: $crate::delegated_type!(argument $form))*
        ) -> $crate::delegated_type!($how $sizes) {
            $on! { d { $name [$($g)?] ($($arg),*) } }
        }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! delegated_type {
    (argument view) => { $crate::View<'_, Self> };
    (argument views) => { &[$crate::View<'_, Self>] };
    (argument maybe) => { Option<$crate::View<'_, Self>> };
    (argument buffer) => { &Self::Buffer };
    (argument ($t:ty)) => { $t };
    (one $sizes:tt) => { $crate::backend::delegate::types::Result<Self::Buffer> };
    (placed $sizes:tt) => {
        $crate::backend::delegate::types::Result<$crate::backend::Placed<Self::Buffer>>
    };
    (two $sizes:tt) => { $crate::backend::delegate::types::Result<(Self::Buffer, Self::Buffer)> };
    (three $sizes:tt) => {
        $crate::backend::delegate::types::Result<(Self::Buffer, Self::Buffer, Self::Buffer)>
    };
    (plain ($t:ty)) => { $t };
    (hand ($t:ty)) => { $t };
}
