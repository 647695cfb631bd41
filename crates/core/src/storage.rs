//! Storage floats: what memory holds in few bits and is computed in f32.
//!
//! A load is exact, a store rounds once, to nearest even. The list `storage_floats!` is the only
//! one of its kind: a row there is a variant of [`DType`](crate::DType) and of
//! [`HostData`](crate::HostData), a Rust type with [`Storage`], and an element type of kernels.
//! Elsewhere `storage!` stands for all of them in a pattern, `match_storage!` in an arm.
//!
//! Rows of `half` are of 16 bits, with types and instructions of their own; those of `byte` have
//! neither: they are converted as their [`Format`] says, by a table and by integer operations.

use crate::Element;

/// The list of storage floats, handed to a macro: `storage_floats!([m] (arguments))` expands to
/// `m! { (arguments) half { rows } byte { rows } }`. A row is the variant, the type, and in braces
/// what [`Format`] has.
#[macro_export]
macro_rules! storage_floats {
    ([$($then:tt)+] $arguments:tt) => {
        $($then)+! { $arguments
            half {
                F16: f16 {
                    doc: "16-bit IEEE 754 float: storage only, arithmetic is in f32.",
                    name: "f16", exponent: 5, mantissa: 10, bias: 15, infinities: true,
                }
                BF16: bf16 {
                    doc: "16-bit brain float: storage only, arithmetic is in f32.",
                    name: "bf16", exponent: 8, mantissa: 7, bias: 127, infinities: true,
                }
            }
            byte {
                F8E4M3: f8e4m3 {
                    doc: "8-bit float of 4 exponent and 3 mantissa bits, without infinities (\"e4m3fn\"): \
                        storage only, arithmetic is in f32. The largest is 448; what rounds beyond is NaN.",
                    name: "f8e4m3", exponent: 4, mantissa: 3, bias: 7, infinities: false,
                }
                F8E5M2: f8e5m2 {
                    doc: "8-bit float of 5 exponent and 2 mantissa bits, with infinities (\"e5m2\"): \
                        storage only, arithmetic is in f32. The largest is 57344.",
                    name: "f8e5m2", exponent: 5, mantissa: 2, bias: 15, infinities: true,
                }
            }
        }
    };
}

/// A pattern for all storage floats: `storage!(DType)`, `storage!(HostData)`; `float8!` for those
/// of one byte.
#[macro_export]
macro_rules! storage {
    ($of:ident) => { $crate::storage_floats!([$crate::__storage_pattern] (storage $of)) };
}
/// A pattern for the storage floats of one byte: `float8!(DType)`, `float8!(HostData)`.
#[macro_export]
macro_rules! float8 {
    ($of:ident) => { $crate::storage_floats!([$crate::__storage_pattern] (float8 $of)) };
}
#[doc(hidden)]
#[macro_export]
macro_rules! __storage_pattern {
    ((storage DType) half { $($h:ident: $ht:ident $hr:tt)* } byte { $($b:ident: $bt:ident $br:tt)* }) => {
        $($crate::DType::$h)|* $(| $crate::DType::$b)*
    };
    ((storage HostData) half { $($h:ident: $ht:ident $hr:tt)* } byte { $($b:ident: $bt:ident $br:tt)* }) => {
        $($crate::HostData::$h(_))|* $(| $crate::HostData::$b(_))*
    };
    ((float8 DType) half $half:tt byte { $($b:ident: $bt:ident $br:tt)* }) => {
        $($crate::DType::$b)|*
    };
    ((float8 HostData) half $half:tt byte { $($b:ident: $bt:ident $br:tt)* }) => {
        $($crate::HostData::$b(_))|*
    };
}

/// A `match` whose first arm stands for all storage floats (or, `float8`, for those of one byte):
/// its body is compiled for each, with `T` as the type and, for data, `v` as the elements.
///
/// ```
/// use elinvar_core::{DType, HostData, HostVec, match_storage};
/// fn wide(data: &HostData) -> Vec<f32> {
///     match_storage!(HostData data; storage v: T => v.iter().map(|x: &T| x.to_f32()).collect();
///         HostData::F32(v) => v.to_vec(),
///         _ => Vec::new(),
///     )
/// }
/// assert_eq!(wide(&HostData::full(DType::BF16, 2, 1.5.into()).unwrap()), [1.5, 1.5]);
/// let bytes = |d: DType| match_storage!(DType d; storage T => size_of::<T>(); _ => 0,);
/// assert_eq!([DType::F16, DType::F8E4M3, DType::I32].map(bytes), [2, 1, 0]);
/// ```
#[macro_export]
macro_rules! match_storage {
    (HostData $x:expr; $rows:ident $v:ident: $T:ident => $body:expr; $($rest:tt)*) => {
        $crate::storage_floats!(
            [$crate::__match_storage] (HostData ($x) $rows ($v $T) ($body) { $($rest)* })
        )
    };
    (DType $x:expr; $rows:ident $T:ident => $body:expr; $($rest:tt)*) => {
        $crate::storage_floats!([$crate::__match_storage] (DType ($x) $rows ($T) ($body) { $($rest)* }))
    };
}
#[doc(hidden)]
#[macro_export]
macro_rules! __match_storage {
    ((HostData ($x:expr) storage ($v:ident $T:ident) ($body:expr) { $($rest:tt)* })
        half { $($h:ident: $ht:ident $hr:tt)* } byte { $($b:ident: $bt:ident $br:tt)* }
    ) => {
        match $x {
            $($crate::HostData::$h($v) => { #[allow(dead_code)] type $T = $crate::$ht; $body })*
            $($crate::HostData::$b($v) => { #[allow(dead_code)] type $T = $crate::$bt; $body })*
            $($rest)*
        }
    };
    ((HostData $x:tt float8 $vt:tt $body:tt $rest:tt) half $half:tt byte $byte:tt) => {
        $crate::__match_storage!((HostData $x storage $vt $body $rest) half {} byte $byte)
    };
    ((DType ($x:expr) storage ($T:ident) ($body:expr) { $($rest:tt)* })
        half { $($h:ident: $ht:ident $hr:tt)* } byte { $($b:ident: $bt:ident $br:tt)* }
    ) => {
        match $x {
            $($crate::DType::$h => { type $T = $crate::$ht; $body })*
            $($crate::DType::$b => { type $T = $crate::$bt; $body })*
            $($rest)*
        }
    };
    ((DType $x:tt float8 $t:tt $body:tt $rest:tt) half $half:tt byte $byte:tt) => {
        $crate::__match_storage!((DType $x storage $t $body $rest) half {} byte $byte)
    };
}

/// How a float is stored: a sign, an exponent, a mantissa.
///
/// A code whose exponent is 0 is `mantissa * 2^(1 - bias - bits of the mantissa)` (subnormal), any
/// other `1.mantissa * 2^(exponent - bias)`. The largest exponent is that of infinity and NaN if
/// there are infinities; without, only the code of all ones is NaN, and all others are numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Format {
    /// The name, as in `f16`.
    pub name: &'static str,
    /// Bits of the exponent.
    pub exponent: u32,
    /// Bits of the mantissa.
    pub mantissa: u32,
    /// What is taken off the stored exponent.
    pub bias: u32,
    /// Are there infinities?
    pub infinities: bool,
}

impl Format {
    /// Bits of a code.
    pub const fn bits(self) -> u32 {
        1 + self.exponent + self.mantissa
    }
    /// The bits of a code without the sign: all ones, the NaN of stores.
    pub const fn nan(self) -> u32 {
        (1 << (self.exponent + self.mantissa)) - 1
    }
    /// The magnitude of what is too large: infinity, or NaN.
    pub const fn overflow(self) -> u32 {
        if self.infinities { self.nan() ^ ((1 << self.mantissa) - 1) } else { self.nan() }
    }
    /// Larger magnitudes than this are NaN.
    pub const fn last_number(self) -> u32 {
        if self.infinities { self.overflow() } else { self.nan() - 1 }
    }
    /// The bits of the f32 mantissa that a code has not.
    pub const fn shift(self) -> u32 {
        f32::MANTISSA_DIGITS - 1 - self.mantissa
    }
    /// What the exponent of an f32 is larger by, as bits of an f32.
    pub const fn rebias(self) -> u32 {
        (127 - self.bias) << 23
    }
    /// The bits of an f32 whose last place is that of the smallest subnormal: a sum with it is
    /// rounded to subnormals.
    pub const fn subnormal_magic(self) -> u32 {
        (127 - self.bias + self.shift() + 1) << 23
    }
    /// Distance from 1 to the next larger number.
    pub const fn epsilon(self) -> f64 {
        1.0 / (1u64 << self.mantissa) as f64
    }
    /// The largest number.
    pub const fn max(self) -> f32 {
        self.decode(if self.infinities { self.overflow() - 1 } else { self.last_number() })
    }
    /// The value of a code, exactly.
    pub const fn decode(self, code: u32) -> f32 {
        let sign = (code >> (self.bits() - 1)) << 31;
        let rest = code & self.nan();
        let magnitude = if rest > self.last_number() {
            f32::NAN
        } else if self.infinities && rest == self.overflow() {
            f32::INFINITY
        } else if rest >> self.mantissa == 0 {
            // A subnormal of f32 with the same mantissa; its exponent moves by a product.
            f32::from_bits(rest << self.shift()) * f32::from_bits((127 + 127 - self.bias) << 23)
        } else {
            f32::from_bits((rest << self.shift()) + self.rebias())
        };
        f32::from_bits(magnitude.to_bits() | sign)
    }
    /// The code nearest to a value, ties to even; NaN and what is too large keep their signs.
    pub const fn encode(self, x: f32) -> u32 {
        let bits = x.to_bits();
        let sign = bits >> 31 << (self.bits() - 1);
        let rest = bits & 0x7fff_ffff;
        let code = if rest > 0x7f80_0000 {
            self.nan()
        } else if rest < self.rebias() + (1 << 23) {
            let magic = self.subnormal_magic();
            (f32::from_bits(rest) + f32::from_bits(magic)).to_bits() - magic
        } else {
            // Half of the last place, less a bit if that place is even.
            let half = (1 << (self.shift() - 1)) - 1 + (rest >> self.shift() & 1);
            let code = (rest - self.rebias() + half) >> self.shift();
            if code > self.overflow() { self.overflow() } else { code }
        };
        code | sign
    }
}

/// A storage float as a Rust type.
pub trait Storage: Element + PartialOrd {
    /// How it is stored.
    const FORMAT: Format;
    /// The value, exactly.
    fn to_f32(self) -> f32;
    /// The nearest, ties to even.
    fn from_f32(v: f32) -> Self;
}

macro_rules! formats {
    (() half { $($half:tt)* } byte { $($byte:tt)* }) => { formats! { @ $($half)* $($byte)* } };
    (@ $($v:ident: $t:ident {
        doc: $doc:literal, name: $name:literal,
        exponent: $exponent:literal, mantissa: $mantissa:literal, bias: $bias:literal,
        infinities: $infinities:literal,
    })*) => {$(
        impl Storage for crate::$t {
            const FORMAT: Format = Format {
                name: $name, exponent: $exponent, mantissa: $mantissa, bias: $bias, infinities: $infinities,
            };
            #[inline]
            fn to_f32(self) -> f32 { <crate::$t>::to_f32(self) }
            #[inline]
            fn from_f32(v: f32) -> Self { <crate::$t>::from_f32(v) }
        }
    )*};
}
crate::storage_floats!([formats]());

/// Types of the list that are ours.
pub mod types {
    use super::Storage;
    use std::fmt;

    macro_rules! bytes {
        (() half $half:tt byte { $($v:ident: $t:ident {
            doc: $doc:literal, name: $name:literal, $($format:tt)*
        })* }) => {
            /// The storage floats of one byte, as values.
            #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
            pub enum Float8 {$(
                #[doc = $doc]
                $v,
            )*}

            impl Float8 {
                /// All of them.
                pub const ALL: &[Float8] = &[$(Float8::$v),*];
                /// How it is stored.
                pub const fn format(self) -> super::Format {
                    match self { $(Float8::$v => <$t as Storage>::FORMAT,)* }
                }
                /// The element type.
                pub const fn dtype(self) -> crate::DType {
                    match self { $(Float8::$v => crate::DType::$v,)* }
                }
                /// That of an element type; `None` for other element types.
                pub const fn of(dtype: crate::DType) -> Option<Float8> {
                    match dtype {
                        $(crate::DType::$v => Some(Float8::$v),)*
                        _ => None,
                    }
                }
            }

            $(
                #[doc = $doc]
                #[allow(non_camel_case_types, reason = "as f32 and f16 are written")]
                #[derive(Clone, Copy, Default)]
                #[repr(transparent)]
                pub struct $t(u8);

                impl $t {
                    /// All values, by their codes.
                    const VALUES: [f32; 256] = {
                        let mut all = [0.0; 256];
                        let mut code = 0;
                        while code < all.len() {
                            all[code] = <$t as Storage>::FORMAT.decode(code as u32);
                            code += 1;
                        }
                        all
                    };
                    /// Zero.
                    pub const ZERO: $t = $t(0);
                    /// The largest number.
                    pub const MAX: $t = $t::from_f32(<$t as Storage>::FORMAT.max());
                    /// Not a number.
                    pub const NAN: $t = $t(<$t as Storage>::FORMAT.nan() as u8);

                    /// Of these bits.
                    pub const fn from_bits(bits: u8) -> $t {
                        $t(bits)
                    }
                    /// The bits.
                    pub const fn to_bits(self) -> u8 {
                        self.0
                    }
                    /// The value, exactly.
                    #[inline]
                    pub fn to_f32(self) -> f32 {
                        static VALUES: [f32; 256] = $t::VALUES;
                        VALUES[usize::from(self.0)]
                    }
                    /// The nearest, ties to even.
                    pub const fn from_f32(v: f32) -> $t {
                        $t(<$t as Storage>::FORMAT.encode(v) as u8)
                    }
                    /// The value, exactly.
                    pub fn to_f64(self) -> f64 {
                        f64::from(self.to_f32())
                    }
                    /// The nearest, ties to even.
                    pub fn from_f64(v: f64) -> $t {
                        $t::from_f32(crate::rounding::odd_f32(v))
                    }
                    /// Is it not a number?
                    pub fn is_nan(self) -> bool {
                        self.to_f32().is_nan()
                    }
                    /// One byte.
                    pub const fn to_le_bytes(self) -> [u8; 1] {
                        [self.0]
                    }
                    /// Of one byte.
                    pub const fn from_le_bytes(bytes: [u8; 1]) -> $t {
                        $t(bytes[0])
                    }
                }
                impl PartialEq for $t {
                    fn eq(&self, other: &$t) -> bool {
                        self.to_f32() == other.to_f32()
                    }
                }
                impl PartialOrd for $t {
                    fn partial_cmp(&self, other: &$t) -> Option<std::cmp::Ordering> {
                        self.to_f32().partial_cmp(&other.to_f32())
                    }
                }
                impl fmt::Debug for $t {
                    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                        fmt::Debug::fmt(&self.to_f32(), f)
                    }
                }
                impl fmt::Display for $t {
                    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                        fmt::Display::fmt(&self.to_f32(), f)
                    }
                }
                impl From<$t> for f32 {
                    fn from(v: $t) -> f32 {
                        v.to_f32()
                    }
                }
                impl From<$t> for f64 {
                    fn from(v: $t) -> f64 {
                        v.to_f64()
                    }
                }
            )*
        };
    }
    crate::storage_floats!([bytes]());
}

#[cfg(test)]
mod tests;
