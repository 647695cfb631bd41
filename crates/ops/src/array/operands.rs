//! Operands under their common device, dtype and shape, and the elementwise formulas that are run
//! on them.

use super::Array;
use crate::backend::{Backend, View};
use crate::map::{Compiled, CompiledIntMap, CompiledMap, IntMapObject, MapObject, Out};
use elinvar_core::{DType, Error, ErrorKind, Layout, Result, Shape};
use smallvec::SmallVec;

/// That all operands live on one device.
///
/// # Errors
/// `DeviceMismatch`.
#[inline]
pub fn one_device<B: Backend>(op: &str, x: &[&Array<B>]) -> Result<()> {
    match x.iter().find(|a| a.device() != x[0].device()) {
        None => Ok(()),
        Some(other) => Err(Error::new(
            ErrorKind::DeviceMismatch,
            format!("{op}: operands live on {} and {}; copy one with copy_to", x[0].device(), other.device()),
        )),
    }
}

/// The dtype that all operands share, bool operands aside.
///
/// # Errors
/// `DTypeMismatch`.
#[inline]
pub fn one_dtype<B: Backend>(op: &str, x: &[&Array<B>]) -> Result<DType> {
    let mut seen = DType::Bool;
    for a in x {
        if a.dtype() != DType::Bool {
            if seen != DType::Bool && seen != a.dtype() {
                return Err(Error::dtype(format!(
                    "{op}: operands are {seen} and {}; convert one with to_dtype",
                    a.dtype()
                )));
            }
            seen = a.dtype();
        }
    }
    Ok(seen)
}

/// The shape to which all operands broadcast.
///
/// # Errors
/// `ShapeMismatch`.
pub fn broadcast_shape<B: Backend>(op: &str, x: &[&Array<B>]) -> Result<Shape> {
    x[1..].iter().try_fold(x[0].shape().clone(), |s, a| s.broadcast(a.shape(), op))
}

/// All operands, broadcast to one shape; with the dtype that they share.
///
/// # Errors
/// `DeviceMismatch`, `DTypeMismatch`, `ShapeMismatch`.
#[inline]
pub fn align<'a, B: Backend>(op: &str, x: &'a [&'a Array<B>]) -> Result<Aligned<'a, B>> {
    one_device(op, x)?;
    let dtype = one_dtype(op, x)?;
    if x[1..].iter().all(|a| a.layout().has_shape_of(x[0].layout())) {
        return Ok(Aligned { x, layouts: None, dtype });
    }
    let shape = broadcast_shape(op, x)?;
    let fit =
        |a: &&Array<B>| a.layout().broadcast_to(&shape, op).expect("the common shape fits every operand");
    Ok(Aligned { x, layouts: Some(x.iter().map(fit).collect()), dtype })
}

/// Views of operands: those of most formulas fit without an allocation.
pub type Views<'a, B> = SmallVec<[View<'a, B>; 4]>;

/// Operands under their common shape.
pub struct Aligned<'a, B: Backend> {
    x: &'a [&'a Array<B>],
    /// Their layouts, where those are not their own.
    layouts: Option<SmallVec<[Layout; 4]>>,
    /// Their dtype.
    pub dtype: DType,
}

impl<B: Backend> Aligned<'_, B> {
    /// What a backend takes.
    #[inline]
    pub fn views(&self) -> Views<'_, B> {
        match &self.layouts {
            None => self.x.iter().map(|x| x.view()).collect(),
            Some(layouts) => self.x.iter().zip(layouts).map(|(x, layout)| x.view_as(layout)).collect(),
        }
    }
    /// The common shape.
    pub fn shape(&self) -> &Shape {
        self.first().shape()
    }
    fn first(&self) -> &Layout {
        self.layouts.as_ref().map_or(self.x[0].layout(), |all| &all[0])
    }
    /// The layout of a result.
    #[inline]
    fn layout(&self) -> Layout {
        // Most often one of the operands is plain, and its layout can be shared.
        let first = self.first();
        let own = self.x.iter().map(|x| x.layout()).find(|l| l.is_plain() && l.has_shape_of(first));
        own.cloned().unwrap_or_else(|| Layout::contiguous(self.shape().clone()))
    }
}

/// A float formula at every element, operands broadcast.
///
/// # Errors
/// `DeviceMismatch`, `DTypeMismatch`, `ShapeMismatch`, `OutOfMemory`.
pub fn map<B: Backend, M: CompiledMap<N>, const N: usize>(m: &M, x: [&Array<B>; N]) -> Result<Array<B>> {
    map_object(M::object(&Compiled(*m)), &x)
}

/// As [`map`], by the formula's object.
///
/// # Errors
/// `DeviceMismatch`, `DTypeMismatch`, `ShapeMismatch`, `OutOfMemory`.
pub fn map_object<B: Backend>(f: &dyn MapObject, x: &[&Array<B>]) -> Result<Array<B>> {
    let info = f.info();
    let (device, all) = (x[0].device(), align(info.name, x)?);
    if !all.dtype.is_float() {
        return Err(Error::dtype(format!(
            "{}: not defined for {}; convert with to_dtype to a float type",
            info.name, all.dtype
        )));
    }
    // Short lists in place: an op on a few numbers would notice how they are filled.
    let buffer = match (x, &all.layouts) {
        ([x], None) => B::map(device, f, &[x.view()], all.dtype)?,
        ([x, y], None) => B::map(device, f, &[x.view(), y.view()], all.dtype)?,
        ([x, y, z], None) => B::map(device, f, &[x.view(), y.view(), z.view()], all.dtype)?,
        _ => B::map(device, f, &all.views(), all.dtype)?,
    };
    Ok(Array::laid(device, buffer, all.layout(), out_dtype(info.out, all.dtype)))
}

/// An integer formula at every element, operands broadcast.
///
/// # Errors
/// `DeviceMismatch`, `DTypeMismatch`, `ShapeMismatch`, `OutOfMemory`.
pub fn map_int<B: Backend, M: CompiledIntMap<N>, const N: usize>(
    m: &M,
    x: [&Array<B>; N],
) -> Result<Array<B>> {
    map_int_object(M::object(&Compiled(*m)), &x)
}

/// As [`map_int`], by the formula's object.
///
/// # Errors
/// `DeviceMismatch`, `DTypeMismatch`, `ShapeMismatch`, `OutOfMemory`.
pub fn map_int_object<B: Backend>(f: &dyn IntMapObject, x: &[&Array<B>]) -> Result<Array<B>> {
    let (device, all) = (x[0].device(), align(f.name(), x)?);
    if all.dtype.is_float() {
        return Err(Error::dtype(format!(
            "{}: not defined for {}, only for integers and bool",
            f.name(),
            all.dtype
        )));
    }
    let buffer = B::map_int(device, f, &all.views(), all.dtype)?;
    Ok(Array::laid(device, buffer, all.layout(), out_dtype(f.out(), all.dtype)))
}

fn out_dtype(out: Out, dtype: DType) -> DType {
    match out {
        Out::Same => dtype,
        Out::Bool => DType::Bool,
    }
}
