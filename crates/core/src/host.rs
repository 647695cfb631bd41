//! Tensors in host memory: vectors with a shape. Files, uploads and downloads use this type.

use crate::{DType, Element, Error, HostVec, Result, Scalar, Shape, match_storage, storage_floats};

macro_rules! host_data {
    (() half { $($half:tt)* } byte { $($byte:tt)* }) => { host_data! { @ $($half)* $($byte)* } };
    (@ $($v:ident: $t:ident { doc: $doc:literal, name: $name:literal, $($format:tt)* })*) => {
        /// Elements in host memory, row-major.
        #[derive(Clone, Debug, PartialEq)]
        pub enum HostData {
            /// f32 elements.
            F32(HostVec<f32>),
            /// f64 elements.
            F64(HostVec<f64>),
            $(
                #[doc = concat!($name, " elements.")]
                $v(HostVec<crate::$t>),
            )*
            /// i64 elements.
            I64(HostVec<i64>),
            /// i32 elements.
            I32(HostVec<i32>),
            /// u8 elements.
            U8(HostVec<u8>),
            /// bool elements.
            Bool(HostVec<bool>),
        }

        impl HostData {
            /// The element type.
            #[inline]
            pub fn dtype(&self) -> DType {
                match self {
                    HostData::F32(_) => DType::F32,
                    HostData::F64(_) => DType::F64,
                    $(HostData::$v(_) => DType::$v,)*
                    HostData::I64(_) => DType::I64,
                    HostData::I32(_) => DType::I32,
                    HostData::U8(_) => DType::U8,
                    HostData::Bool(_) => DType::Bool,
                }
            }
        }
    };
}
storage_floats!([host_data]());

/// Runs the body with `$v` bound to the vector inside, whatever its element type.
#[macro_export]
macro_rules! each_data {
    ($data:expr, $v:ident => $body:expr) => {
        $crate::match_storage!(HostData $data; storage $v: StorageFloat => $body;
            $crate::HostData::F32($v) => $body,
            $crate::HostData::F64($v) => $body,
            $crate::HostData::I64($v) => $body,
            $crate::HostData::I32($v) => $body,
            $crate::HostData::U8($v) => $body,
            $crate::HostData::Bool($v) => $body,
        )
    };
}

/// Runs the body with the type alias `$T` bound to the Rust type of a dtype.
#[macro_export]
macro_rules! each_dtype {
    ($dtype:expr, $T:ident => $body:expr) => {
        $crate::match_storage!(DType $dtype; storage $T => $body;
            $crate::DType::F32 => {
                type $T = f32;
                $body
            }
            $crate::DType::F64 => {
                type $T = f64;
                $body
            }
            $crate::DType::I64 => {
                type $T = i64;
                $body
            }
            $crate::DType::I32 => {
                type $T = i32;
                $body
            }
            $crate::DType::U8 => {
                type $T = u8;
                $body
            }
            $crate::DType::Bool => {
                type $T = bool;
                $body
            }
        )
    };
}

/// A vector of `len` copies of `value`, or an error instead of an abort when memory is exhausted.
///
/// # Errors
/// `OutOfMemory` if the allocation is refused.
pub fn filled<T: Clone>(len: usize, value: T) -> Result<Vec<T>> {
    let mut v = with_capacity(len)?;
    v.resize(len, value);
    Ok(v)
}

/// An empty vector of capacity `len`, or an error instead of an abort when memory is exhausted.
///
/// # Errors
/// `OutOfMemory` if the allocation is refused.
#[inline]
pub fn with_capacity<T>(len: usize) -> Result<Vec<T>> {
    let mut v = Vec::new();
    match v.try_reserve_exact(len) {
        Ok(()) => Ok(v),
        Err(_) => Err(refused(len, size_of::<T>())),
    }
}

/// The elements of an iterator, or an error instead of an abort when memory is exhausted: for as
/// many as a tensor's axis is long, which of a tensor without elements may be any number.
///
/// # Errors
/// `OutOfMemory` if the allocation is refused.
pub fn collected<T>(all: impl ExactSizeIterator<Item = T>) -> Result<Vec<T>> {
    let mut v = with_capacity(all.len())?;
    v.extend(all);
    Ok(v)
}

#[cold]
fn refused(len: usize, size: usize) -> Error {
    Error::memory(format!(
        "out of memory: {len} elements of {size} bytes do not fit into this machine's memory"
    ))
}

impl HostData {
    /// `len` copies of `value`.
    ///
    /// # Errors
    /// `DTypeMismatch` if the value does not fit (see [`Scalar::fits`]); `OutOfMemory` if the
    /// allocation is refused.
    pub fn full(dtype: DType, len: usize, value: Scalar) -> Result<HostData> {
        value.fits(dtype)?;
        Ok(match_storage!(DType dtype; storage T => T::wrap(filled(len, T::from_f64(value.to_f64()))?);
            DType::I64 => HostData::I64(filled(len, value.to_i64())?.into()),
            DType::I32 => HostData::I32(filled(len, value.to_i64() as i32)?.into()),
            DType::U8 => HostData::U8(filled(len, value.to_i64() as u8)?.into()),
            DType::Bool => HostData::Bool(filled(len, value.to_bool())?.into()),
            DType::F32 => HostData::F32(filled(len, value.to_f64() as f32)?.into()),
            DType::F64 => HostData::F64(filled(len, value.to_f64())?.into()),
        ))
    }
    /// Number of elements.
    #[inline]
    pub fn len(&self) -> usize {
        each_data!(self, v => v.len())
    }
    /// Is it empty?
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// The elements, little-endian, as stored in files.
    pub fn to_le_bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.len() * self.dtype().size()];
        self.write_le_bytes(&mut bytes);
        bytes
    }
    /// Writes the elements, little-endian, to the first bytes of a slice.
    ///
    /// # Panics
    /// If the slice is too short.
    pub fn write_le_bytes(&self, to: &mut [u8]) {
        let to = &mut to[..self.len() * self.dtype().size()];
        macro_rules! write {
            ($v:expr, $t:ty) => {
                to.as_chunks_mut::<{ size_of::<$t>() }>()
                    .0
                    .iter_mut()
                    .zip(&$v[..])
                    .for_each(|(c, x)| *c = <$t>::to_le_bytes(*x))
            };
        }
        match_storage!(HostData self; storage v: T => write!(v, T);
            HostData::F32(v) => write!(v, f32),
            HostData::F64(v) => write!(v, f64),
            HostData::I64(v) => write!(v, i64),
            HostData::I32(v) => write!(v, i32),
            HostData::U8(v) => to.copy_from_slice(v),
            HostData::Bool(v) => to.iter_mut().zip(&v[..]).for_each(|(b, x)| *b = *x as u8),
        );
    }
    /// Elements from little-endian bytes.
    ///
    /// # Errors
    /// `Format` if the bytes are not a whole number of elements, or one of a bool is neither 0 nor
    /// 1; `OutOfMemory`.
    pub fn from_le_bytes(dtype: DType, bytes: &[u8]) -> Result<HostData> {
        if !bytes.len().is_multiple_of(dtype.size()) {
            return Err(Error::format(format!(
                "{} bytes are not a whole number of {dtype} elements",
                bytes.len()
            )));
        }
        macro_rules! read {
            ($t:ty) => {{
                let mut v = HostVec::<$t>::with_capacity(bytes.len() / size_of::<$t>())?;
                let codes = bytes.as_chunks::<{ size_of::<$t>() }>().0;
                v.extend(codes.iter().map(|c| <$t>::from_le_bytes(*c)));
                v
            }};
        }
        Ok(match_storage!(DType dtype; storage T => T::wrap(read!(T));
            DType::F32 => HostData::F32(read!(f32)),
            DType::F64 => HostData::F64(read!(f64)),
            DType::I64 => HostData::I64(read!(i64)),
            DType::I32 => HostData::I32(read!(i32)),
            DType::U8 => {
                let mut v = HostVec::with_capacity(bytes.len())?;
                v.extend_from_slice(bytes);
                HostData::U8(v)
            }
            DType::Bool => {
                if let Some(i) = bytes.iter().position(|b| *b > 1) {
                    return Err(Error::format(format!(
                        "element {i} of a tensor of bool is the byte {}; 0 and 1 would fit",
                        bytes[i]
                    )));
                }
                let mut v = HostVec::with_capacity(bytes.len())?;
                v.extend(bytes.iter().map(|b| *b != 0));
                HostData::Bool(v)
            }
        ))
    }
}

/// A tensor in host memory: contiguous, row-major.
#[derive(Clone, Debug, PartialEq)]
pub struct HostTensor {
    shape: Shape,
    data: HostData,
}

impl HostTensor {
    /// A tensor of these elements.
    ///
    /// # Errors
    /// `ShapeMismatch` if the number of elements is not the shape's.
    #[inline]
    pub fn new(shape: Shape, data: HostData) -> Result<Self> {
        if shape.numel() != data.len() {
            return Err(Error::shape(format!(
                "from_vec: {} elements do not fill shape {shape}, which has {}",
                data.len(),
                shape.numel()
            )));
        }
        Ok(HostTensor { shape, data })
    }
    /// A tensor from a vector.
    ///
    /// # Errors
    /// `ShapeMismatch` if the number of elements is not the shape's.
    pub fn from_vec<T: Element>(v: Vec<T>, shape: Shape) -> Result<Self> {
        Self::new(shape, T::wrap(v))
    }
    /// The shape.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }
    /// The element type.
    pub fn dtype(&self) -> DType {
        self.data.dtype()
    }
    /// The elements.
    pub fn data(&self) -> &HostData {
        &self.data
    }
    /// Consumes the tensor: its shape and elements.
    #[inline]
    pub fn into_parts(self) -> (Shape, HostData) {
        (self.shape, self.data)
    }
    /// Consumes the tensor: its elements.
    #[inline]
    pub fn into_data(self) -> HostData {
        self.data
    }
    /// The elements as a slice.
    ///
    /// # Errors
    /// `DTypeMismatch` if they are of another type.
    pub fn as_slice<T: Element>(&self) -> Result<&[T]> {
        T::slice(&self.data)
            .ok_or_else(|| Error::dtype(format!("the elements are {}, not {}", self.dtype(), T::DTYPE)))
    }
    /// Every element as f64.
    pub fn to_f64_vec(&self) -> Vec<f64> {
        each_data!(&self.data, v => v.iter().map(|x| x.to_f64()).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_of_a_bool_are_0_and_1() {
        let read = |bytes: &[u8]| HostData::from_le_bytes(DType::Bool, bytes);
        assert_eq!(read(&[0, 1]).unwrap(), HostData::Bool([false, true].into()));
        for byte in [2, 128, 255] {
            let e = read(&[1, byte]).unwrap_err();
            assert!(
                e.message().starts_with(&format!("element 1 of a tensor of bool is the byte {byte}")),
                "{e}"
            );
        }
    }
}
