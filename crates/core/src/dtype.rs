//! Element types.

use crate::HostVec;
use crate::host::HostData;
use crate::rounding;
use crate::storage::{Format, Storage};
use crate::{storage, storage_floats};
use std::fmt;

macro_rules! dtypes {
    (() half { $($half:tt)* } byte { $($byte:tt)* }) => { dtypes! { @ $($half)* $($byte)* } };
    (@ $($v:ident: $t:ident { doc: $doc:literal, name: $name:literal, $($format:tt)* })*) => {
        /// The type of a tensor's elements.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum DType {
            /// 32-bit IEEE 754 float.
            F32,
            /// 64-bit IEEE 754 float.
            F64,
            $(
                #[doc = $doc]
                $v,
            )*
            /// 64-bit signed integer; arithmetic wraps.
            I64,
            /// 32-bit signed integer; arithmetic wraps.
            I32,
            /// 8-bit unsigned integer; arithmetic wraps.
            U8,
            /// Truth value, one byte.
            Bool,
        }

        /// How many storage floats there are.
        const STORAGE: usize = [$($name),*].len();

        impl DType {
            /// All of them.
            pub const ALL: [DType; 6 + STORAGE] =
                [DType::F32, DType::F64, $(DType::$v,)* DType::I64, DType::I32, DType::U8, DType::Bool];
            /// f32, f64 and the storage floats.
            pub const FLOATS: [DType; 2 + STORAGE] = [DType::F32, DType::F64, $(DType::$v),*];
            /// The storage floats.
            pub const STORAGE: [DType; STORAGE] = [$(DType::$v),*];

            /// How a storage float is stored; `None` for all other types.
            pub const fn format(self) -> Option<Format> {
                match self {
                    $(DType::$v => Some(<crate::$t as Storage>::FORMAT),)*
                    DType::F32 | DType::F64 | DType::I64 | DType::I32 | DType::U8 | DType::Bool => None,
                }
            }
        }
    };
}
storage_floats!([dtypes]());

impl DType {
    /// Bytes per element.
    pub const fn size(self) -> usize {
        match self {
            DType::F64 | DType::I64 => 8,
            DType::F32 | DType::I32 => 4,
            DType::U8 | DType::Bool => 1,
            storage!(DType) => (self.stored().bits() / 8) as usize,
        }
    }
    /// Is it f32, f64 or a storage float?
    pub const fn is_float(self) -> bool {
        match self {
            DType::F32 | DType::F64 | storage!(DType) => true,
            DType::I64 | DType::I32 | DType::U8 | DType::Bool => false,
        }
    }
    /// Is it i64, i32 or u8? (Not bool.)
    pub const fn is_int(self) -> bool {
        match self {
            DType::I64 | DType::I32 | DType::U8 => true,
            DType::F32 | DType::F64 | storage!(DType) | DType::Bool => false,
        }
    }
    /// Is it a storage float: f16, bf16 or one of 8 bits, computed in f32?
    pub const fn is_storage(self) -> bool {
        matches!(self, storage!(DType))
    }
    const fn stored(self) -> Format {
        self.format().expect("a storage float has a format")
    }
    /// The type in which this one is computed: f32 for storage floats, else itself.
    pub const fn compute(self) -> DType {
        if self.is_storage() { DType::F32 } else { self }
    }
    /// The lower-case name, as in `f32`.
    pub const fn name(self) -> &'static str {
        match self {
            DType::F32 => "f32",
            DType::F64 => "f64",
            DType::I64 => "i64",
            DType::I32 => "i32",
            DType::U8 => "u8",
            DType::Bool => "bool",
            storage!(DType) => self.stored().name,
        }
    }
    /// The type of this name, in upper or lower case.
    pub fn parse(name: &str) -> Option<DType> {
        DType::ALL.into_iter().find(|d| d.name().eq_ignore_ascii_case(name))
    }
    /// The least and the largest of its whole numbers; for bool 0 and 1, for floats `None`.
    pub const fn range(self) -> Option<(i64, i64)> {
        match self {
            DType::F32 | DType::F64 | storage!(DType) => None,
            DType::I64 => Some((i64::MIN, i64::MAX)),
            DType::I32 => Some((i32::MIN as i64, i32::MAX as i64)),
            DType::U8 => Some((0, u8::MAX as i64)),
            DType::Bool => Some((0, 1)),
        }
    }
    /// Machine epsilon, the distance from 1 to the next larger number; 0 for types that are not
    /// floats.
    pub const fn epsilon(self) -> f64 {
        match self {
            DType::F32 => f32::EPSILON as f64,
            DType::F64 => f64::EPSILON,
            storage!(DType) => self.stored().epsilon(),
            DType::I64 | DType::I32 | DType::U8 | DType::Bool => 0.0,
        }
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A Rust type that can be an element.
pub trait Element: Copy + fmt::Debug + PartialEq + Send + Sync + 'static {
    /// The element type.
    const DTYPE: DType;
    /// Zero, or false.
    const ZERO: Self;
    /// Puts a vector of this type into [`HostData`].
    fn wrap(v: impl Into<HostVec<Self>>) -> HostData;
    /// The elements, if they are of this type.
    fn slice(data: &HostData) -> Option<&[Self]>;
    /// The elements, if they are of this type.
    fn slice_mut(data: &mut HostData) -> Option<&mut [Self]>;
    /// Takes the elements out, if they are of this type.
    fn unwrap(data: HostData) -> Option<HostVec<Self>>;
    /// The value as f64: exact but for large i64.
    fn to_f64(self) -> f64;
    /// From f64: floats round to nearest even, integers truncate towards zero and saturate, bool is
    /// `v != 0`.
    fn from_f64(v: f64) -> Self;
}

macro_rules! element {
    ($($t:ty, $variant:ident, $zero:expr, $to:expr, $from:expr;)*) => {$(
        impl Element for $t {
            const DTYPE: DType = DType::$variant;
            const ZERO: Self = $zero;
            fn wrap(v: impl Into<HostVec<Self>>) -> HostData { HostData::$variant(v.into()) }
            fn slice(data: &HostData) -> Option<&[Self]> {
                if let HostData::$variant(v) = data { Some(v) } else { None }
            }
            fn slice_mut(data: &mut HostData) -> Option<&mut [Self]> {
                if let HostData::$variant(v) = data { Some(v) } else { None }
            }
            fn unwrap(data: HostData) -> Option<HostVec<Self>> {
                if let HostData::$variant(v) = data { Some(v) } else { None }
            }
            fn to_f64(self) -> f64 { ($to)(self) }
            fn from_f64(v: f64) -> Self { ($from)(v) }
        }
    )*};
}
element! {
    f32,  F32,  0.0,        |v| v as f64,            |v| v as f32;
    f64,  F64,  0.0,        |v| v,                   |v| v;
    i64,  I64,  0,          |v| v as f64,            |v| v as i64;
    i32,  I32,  0,          |v| v as f64,            |v| v as i32;
    u8,   U8,   0,          |v| v as f64,            |v| v as u8;
    bool, Bool, false,      |v| v as u8 as f64,      |v| v != 0.0;
}
macro_rules! storage_elements {
    (() half { $($h:ident: $ht:ident $hr:tt)* } byte { $($b:ident: $bt:ident $br:tt)* }) => {
        element! {
            $(crate::$ht, $h, <crate::$ht>::ZERO, <crate::$ht>::to_f64, rounding::storage_from_f64;)*
            $(crate::$bt, $b, <crate::$bt>::ZERO, <crate::$bt>::to_f64, rounding::storage_from_f64;)*
        }
    };
}
storage_floats!([storage_elements]());
