//! IR: types of values, elements of memory, fragments of tensor cores.

use elinvar_core::{DType, Float8, float8};
use std::fmt;

/// A scalar that is computed with. Storage floats and bytes are not among them: they are [`Elem`]s
/// of memory, widened by a load and rounded (or cut) by a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Scalar {
    /// A truth value.
    Bool,
    /// 32 bits, signed.
    I32,
    /// 32 bits, unsigned.
    U32,
    /// 64 bits, signed.
    I64,
    /// 64 bits, unsigned.
    U64,
    /// 32-bit IEEE 754 float.
    F32,
    /// 64-bit IEEE 754 float.
    F64,
}

impl Scalar {
    /// All of them.
    pub const ALL: [Scalar; 7] =
        [Scalar::Bool, Scalar::I32, Scalar::U32, Scalar::I64, Scalar::U64, Scalar::F32, Scalar::F64];

    /// The name in the text form.
    pub const fn name(self) -> &'static str {
        match self {
            Scalar::Bool => "bool",
            Scalar::I32 => "i32",
            Scalar::U32 => "u32",
            Scalar::I64 => "i64",
            Scalar::U64 => "u64",
            Scalar::F32 => "f32",
            Scalar::F64 => "f64",
        }
    }
    /// f32 or f64?
    pub const fn is_float(self) -> bool {
        match self {
            Scalar::F32 | Scalar::F64 => true,
            Scalar::Bool | Scalar::I32 | Scalar::U32 | Scalar::I64 | Scalar::U64 => false,
        }
    }
    /// An integer (not bool)?
    pub const fn is_int(self) -> bool {
        match self {
            Scalar::I32 | Scalar::U32 | Scalar::I64 | Scalar::U64 => true,
            Scalar::Bool | Scalar::F32 | Scalar::F64 => false,
        }
    }
    /// A signed integer?
    pub const fn is_signed(self) -> bool {
        matches!(self, Scalar::I32 | Scalar::I64)
    }
    /// Width in bits; 1 for bool.
    pub const fn bits(self) -> u32 {
        match self {
            Scalar::Bool => 1,
            Scalar::I32 | Scalar::U32 | Scalar::F32 => 32,
            Scalar::I64 | Scalar::U64 | Scalar::F64 => 64,
        }
    }
}

impl fmt::Display for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What an element of memory is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Elem {
    /// A byte, 0 or 1. Loads as bool.
    Bool,
    /// A byte. Loads as u32; a store keeps the low eight bits.
    U8,
    /// Loads as itself.
    I32,
    /// Loads as itself.
    U32,
    /// Loads as itself.
    I64,
    /// Loads as itself.
    U64,
    /// Loads as f32, exactly; a store rounds to nearest even and overflows to infinity.
    F16,
    /// Loads as f32, exactly; a store rounds to nearest even and overflows to infinity.
    BF16,
    /// A byte. Loads as f32, exactly; a store rounds to nearest even, and overflows as its format
    /// says. Lowered for all targets.
    F8(Float8),
    /// Loads as itself.
    F32,
    /// Loads as itself.
    F64,
}

impl Elem {
    /// All of them.
    pub const ALL: [Elem; 10 + Float8::ALL.len()] = {
        let others = [
            Elem::Bool,
            Elem::U8,
            Elem::I32,
            Elem::U32,
            Elem::I64,
            Elem::U64,
            Elem::F16,
            Elem::BF16,
            Elem::F32,
            Elem::F64,
        ];
        let mut all = [Elem::Bool; 10 + Float8::ALL.len()];
        let mut i = 0;
        while i < all.len() {
            all[i] = if i < others.len() { others[i] } else { Elem::F8(Float8::ALL[i - others.len()]) };
            i += 1;
        }
        all
    };

    /// The scalar as which it is loaded and stored.
    pub const fn scalar(self) -> Scalar {
        match self {
            Elem::Bool => Scalar::Bool,
            Elem::U8 | Elem::U32 => Scalar::U32,
            Elem::I32 => Scalar::I32,
            Elem::I64 => Scalar::I64,
            Elem::U64 => Scalar::U64,
            Elem::F16 | Elem::BF16 | Elem::F8(_) | Elem::F32 => Scalar::F32,
            Elem::F64 => Scalar::F64,
        }
    }
    /// Bytes in memory.
    pub const fn size(self) -> u32 {
        match self {
            Elem::Bool | Elem::U8 | Elem::F8(_) => 1,
            Elem::F16 | Elem::BF16 => 2,
            Elem::I32 | Elem::U32 | Elem::F32 => 4,
            Elem::I64 | Elem::U64 | Elem::F64 => 8,
        }
    }
    /// The name in the text form.
    pub const fn name(self) -> &'static str {
        match self {
            Elem::Bool => "bool",
            Elem::U8 => "u8",
            Elem::I32 => "i32",
            Elem::U32 => "u32",
            Elem::I64 => "i64",
            Elem::U64 => "u64",
            Elem::F16 => "f16",
            Elem::BF16 => "bf16",
            Elem::F8(f) => f.format().name,
            Elem::F32 => "f32",
            Elem::F64 => "f64",
        }
    }
}

impl From<DType> for Elem {
    fn from(d: DType) -> Elem {
        if let Some(f) = Float8::of(d) {
            return Elem::F8(f);
        }
        match d {
            DType::F32 => Elem::F32,
            DType::F64 => Elem::F64,
            DType::F16 => Elem::F16,
            DType::BF16 => Elem::BF16,
            DType::I64 => Elem::I64,
            DType::I32 => Elem::I32,
            DType::U8 => Elem::U8,
            DType::Bool => Elem::Bool,
            float8!(DType) => unreachable!("these were taken care of"),
        }
    }
}

impl fmt::Display for Elem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Which part of `c + a * b` a fragment is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Role {
    /// The left factor: m rows of k.
    A,
    /// The right factor: k rows of n.
    B,
    /// The sum: m rows of n.
    C,
}

/// A matrix that a subgroup holds together, spread over its lanes in a way that only the device
/// knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Fragment {
    /// Which part of the product.
    pub role: Role,
    /// What its numbers are: f16, bf16 or f32 for factors, and f32 for their sums; f64 for both.
    /// Factors of f32 are rounded where they are loaded or filled in: to ten bits behind the point,
    /// ties away from zero ("tf32"); a device whose units multiply f32 as it is (Metal's) does not.
    pub elem: Elem,
    /// Rows of the product.
    pub m: u8,
    /// Columns of the product.
    pub n: u8,
    /// Terms of the product.
    pub k: u8,
}

impl Fragment {
    /// Rows and columns.
    pub const fn shape(self) -> (usize, usize) {
        match self.role {
            Role::A => (self.m as usize, self.k as usize),
            Role::B => (self.k as usize, self.n as usize),
            Role::C => (self.m as usize, self.n as usize),
        }
    }
}

/// Fragments that a device multiplies: sums of m by k times k by n factors, of f32, or of f64 if
/// factors are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MmaShape {
    /// What factors are: f16, bf16, f32 that is rounded, or f64.
    pub elem: Elem,
    /// Rows, columns and terms of a product.
    pub shape: [u8; 3],
}

impl MmaShape {
    /// The one whose sums are chains of fma, and so are exact.
    pub const F64_FMA_CHAIN: MmaShape = MmaShape { elem: Elem::F64, shape: [16, 8, 8] };

    /// The fragment of a role.
    pub const fn fragment(self, role: Role) -> Fragment {
        let elem = match (role, self.elem) {
            (Role::A | Role::B, elem) | (Role::C, elem @ Elem::F64) => elem,
            (Role::C, _) => Elem::F32,
        };
        let [m, n, k] = self.shape;
        Fragment { role, elem, m, n, k }
    }
}

impl fmt::Display for Fragment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let role = match self.role {
            Role::A => "a",
            Role::B => "b",
            Role::C => "c",
        };
        write!(f, "fragment.{role}.{}.{}x{}x{}", self.elem, self.m, self.n, self.k)
    }
}

/// The type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Type {
    /// One scalar (width 1), or a vector of 2 or 4.
    Vector(Scalar, u8),
    /// A matrix fragment.
    Fragment(Fragment),
}

impl Type {
    /// A truth value.
    pub const BOOL: Type = Type::Vector(Scalar::Bool, 1);
    /// A 32-bit unsigned integer.
    pub const U32: Type = Type::Vector(Scalar::U32, 1);

    /// The scalar type of one element; `None` for a fragment.
    pub const fn scalar(self) -> Option<Scalar> {
        match self {
            Type::Vector(s, _) => Some(s),
            Type::Fragment(_) => None,
        }
    }
    /// Numbers per invocation; 0 for a fragment.
    pub const fn width(self) -> u8 {
        match self {
            Type::Vector(_, w) => w,
            Type::Fragment(_) => 0,
        }
    }
    /// The same width of another scalar; a fragment stays.
    pub const fn of(self, s: Scalar) -> Type {
        match self {
            Type::Vector(_, w) => Type::Vector(s, w),
            Type::Fragment(f) => Type::Fragment(f),
        }
    }
}

impl From<Scalar> for Type {
    fn from(s: Scalar) -> Type {
        Type::Vector(s, 1)
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Type::Vector(s, 1) => write!(f, "{s}"),
            Type::Vector(s, w) => write!(f, "{s}x{w}"),
            Type::Fragment(t) => write!(f, "{t}"),
        }
    }
}
