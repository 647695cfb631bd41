//! Text form: the words of enumerations, each in one place.

use crate::ir::{Access, Atomic, Binary, Builtin, Compare, Elem, FragmentLayout, Reduce, Scalar, Unary};

/// An enumeration each of whose values has a word.
pub trait Word: Sized + Copy + 'static {
    /// The word.
    fn word(self) -> &'static str;
    /// The value of a word.
    fn of(word: &str) -> Option<Self>;
}

macro_rules! words {
    ($($type:ident { $($value:pat => $make:expr, $word:literal;)* })*) => {$(
        impl Word for $type {
            fn word(self) -> &'static str {
                match self { $($value => $word,)* }
            }
            fn of(word: &str) -> Option<Self> {
                match word { $($word => Some($make),)* _ => None }
            }
        }
    )*};
}
macro_rules! plain {
    ($($type:ident { $($value:ident $word:literal;)* })*) => {
        words! { $($type { $($type::$value => $type::$value, $word;)* })* }
    };
}

plain! {
    Unary {
        Neg "neg"; Abs "abs"; Sqrt "sqrt"; Floor "floor"; Ceil "ceil"; Trunc "trunc"; Round "round"; Not "not";
        RoundF16 "round_f16"; RoundBF16 "round_bf16"; Exp2 "exp2";
    }
    Binary {
        Add "add"; Sub "sub"; Mul "mul"; Div "div"; Rem "rem"; Min "min"; Max "max"; And "and"; Or "or"; Xor "xor";
        Shl "shl"; Shr "shr"; MulHigh "mul_high"; CopySign "copy_sign";
    }
    Compare { Eq "eq"; Ne "ne"; Lt "lt"; Le "le"; Gt "gt"; Ge "ge"; }
    Reduce { Add "reduce.add"; Min "reduce.min"; Max "reduce.max"; And "reduce.and"; Or "reduce.or"; }
    Atomic {
        Add "atomic.add"; Min "atomic.min"; Max "atomic.max"; And "atomic.and"; Or "atomic.or"; Xor "atomic.xor";
        Exchange "atomic.exchange";
    }
    FragmentLayout { RowMajor "row_major"; ColumnMajor "col_major"; }
    Access { Read "read"; Write "write"; ReadWrite "read_write"; }
    Scalar { Bool "bool"; I32 "i32"; U32 "u32"; I64 "i64"; U64 "u64"; F32 "f32"; F64 "f64"; }
}
impl Word for Elem {
    fn word(self) -> &'static str {
        self.name()
    }
    fn of(word: &str) -> Option<Self> {
        Elem::ALL.into_iter().find(|e| e.name() == word)
    }
}
words! {
    Builtin {
        Builtin::GroupId(0) => Builtin::GroupId(0), "group_id.x";
        Builtin::GroupId(1) => Builtin::GroupId(1), "group_id.y";
        Builtin::GroupId(2..) => Builtin::GroupId(2), "group_id.z";
        Builtin::GroupCount(0) => Builtin::GroupCount(0), "group_count.x";
        Builtin::GroupCount(1) => Builtin::GroupCount(1), "group_count.y";
        Builtin::GroupCount(2..) => Builtin::GroupCount(2), "group_count.z";
        Builtin::LocalId(0) => Builtin::LocalId(0), "local_id.x";
        Builtin::LocalId(1) => Builtin::LocalId(1), "local_id.y";
        Builtin::LocalId(2..) => Builtin::LocalId(2), "local_id.z";
        Builtin::LocalIndex => Builtin::LocalIndex, "local_index";
        Builtin::SubgroupLane => Builtin::SubgroupLane, "subgroup_lane";
        Builtin::SubgroupId => Builtin::SubgroupId, "subgroup_id";
    }
}
