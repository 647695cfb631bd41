//! Buffers of the interpreter.

use crate::ir::Elem;
use elinvar_core::{DType, Element, HostData, match_storage};
use half::{bf16, f16};

/// A buffer: the bits of each element.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Memory {
    /// What it holds.
    pub elem: Elem,
    /// The elements, each in the low bits.
    pub cells: Vec<u64>,
}

impl Memory {
    /// Zeros.
    pub fn zeros(elem: Elem, len: usize) -> Memory {
        Memory { elem, cells: vec![0; len] }
    }
    /// Is element `i` NaN? All bits that are one are the same value.
    ///
    /// # Panics
    /// If there is no such element.
    pub fn is_nan(&self, i: usize) -> bool {
        let bits = self.cells[i];
        match self.elem {
            Elem::F32 => f32::from_bits(bits as u32).is_nan(),
            Elem::F64 => f64::from_bits(bits).is_nan(),
            Elem::F16 => f16::from_bits(bits as u16).is_nan(),
            Elem::BF16 => bf16::from_bits(bits as u16).is_nan(),
            Elem::F8(f) => f.format().decode(bits as u32).is_nan(),
            Elem::I64 | Elem::I32 | Elem::U64 | Elem::U32 | Elem::U8 | Elem::Bool => false,
        }
    }
    /// The numbers of a host tensor.
    pub fn from_host(data: &HostData) -> Memory {
        let cells = match_storage!(HostData data; storage v: T => v.iter().map(|x: &T| u64::from(x.to_bits())).collect();
            HostData::F32(v) => v.iter().map(|x| u64::from(x.to_bits())).collect(),
            HostData::F64(v) => v.iter().map(|x| x.to_bits()).collect(),
            HostData::I64(v) => v.iter().map(|&x| x as u64).collect(),
            HostData::I32(v) => v.iter().map(|&x| u64::from(x as u32)).collect(),
            HostData::U8(v) => v.iter().map(|&x| u64::from(x)).collect(),
            HostData::Bool(v) => v.iter().map(|&x| u64::from(x)).collect(),
        );
        Memory { elem: data.dtype().into(), cells }
    }
    /// The numbers as a host tensor; `None` for u32 and u64, which tensors have not.
    pub fn to_host(&self) -> Option<HostData> {
        fn all<T>(cells: &[u64], f: impl Fn(u64) -> T) -> Vec<T> {
            cells.iter().map(|&x| f(x)).collect()
        }
        let c = &self.cells;
        Some(match self.elem {
            Elem::F32 => HostData::F32((all(c, |x| f32::from_bits(x as u32))).into()),
            Elem::F64 => HostData::F64(all(c, f64::from_bits).into()),
            Elem::F16 => HostData::F16((all(c, |x| f16::from_bits(x as u16))).into()),
            Elem::BF16 => HostData::BF16((all(c, |x| bf16::from_bits(x as u16))).into()),
            Elem::F8(f) => {
                match_storage!(DType f.dtype(); float8 T => T::wrap(all(c, |x| T::from_bits(x as u8)));
                    _ => unreachable!("a float of one byte"),
                )
            }
            Elem::I64 => HostData::I64((all(c, |x| x as i64)).into()),
            Elem::I32 => HostData::I32((all(c, |x| x as u32 as i32)).into()),
            Elem::U8 => HostData::U8((all(c, |x| x as u8)).into()),
            Elem::Bool => HostData::Bool(all(c, |x| x != 0).into()),
            Elem::U32 | Elem::U64 => return None,
        })
    }
    /// Zeros for a dtype.
    pub fn of(dtype: DType, len: usize) -> Memory {
        Memory::zeros(dtype.into(), len)
    }
}
