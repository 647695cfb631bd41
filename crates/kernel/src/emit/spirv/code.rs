//! SPIR-V: the opcodes and enumerants that are emitted, by the names of the specification,
//! ascending.
//!
//! How it can be wrong: a wrong number makes a module that no validator passes, or that computes
//! something else; the tests see both.

macro_rules! numbers {
    ($($(#[$doc:meta])* $name:ident { $($item:ident = $number:literal,)* })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(super) enum $name {
            $($item = $number,)*
        }
    )*};
}

numbers! {
    /// Instructions.
    Code {
        Name = 5,
        Extension = 10,
        ExtInstImport = 11,
        ExtInst = 12,
        MemoryModel = 14,
        EntryPoint = 15,
        ExecutionMode = 16,
        Capability = 17,
        TypeVoid = 19,
        TypeBool = 20,
        TypeInt = 21,
        TypeFloat = 22,
        TypeVector = 23,
        TypeArray = 28,
        TypeRuntimeArray = 29,
        TypeStruct = 30,
        TypePointer = 32,
        TypeFunction = 33,
        ConstantTrue = 41,
        ConstantFalse = 42,
        Constant = 43,
        ConstantComposite = 44,
        Function = 54,
        FunctionEnd = 56,
        Variable = 59,
        Load = 61,
        Store = 62,
        AccessChain = 65,
        Decorate = 71,
        MemberDecorate = 72,
        CompositeConstruct = 80,
        CompositeExtract = 81,
        CopyObject = 83,
        ConvertFToU = 109,
        ConvertFToS = 110,
        ConvertSToF = 111,
        ConvertUToF = 112,
        UConvert = 113,
        SConvert = 114,
        FConvert = 115,
        Bitcast = 124,
        SNegate = 126,
        FNegate = 127,
        IAdd = 128,
        FAdd = 129,
        ISub = 130,
        FSub = 131,
        IMul = 132,
        FMul = 133,
        UDiv = 134,
        SDiv = 135,
        FDiv = 136,
        UMulExtended = 151,
        SMulExtended = 152,
        LogicalEqual = 164,
        LogicalNotEqual = 165,
        LogicalOr = 166,
        LogicalAnd = 167,
        LogicalNot = 168,
        Select = 169,
        IEqual = 170,
        INotEqual = 171,
        UGreaterThan = 172,
        SGreaterThan = 173,
        UGreaterThanEqual = 174,
        SGreaterThanEqual = 175,
        ULessThan = 176,
        SLessThan = 177,
        ULessThanEqual = 178,
        SLessThanEqual = 179,
        FOrdEqual = 180,
        FUnordNotEqual = 183,
        FOrdLessThan = 184,
        FOrdGreaterThan = 186,
        FOrdLessThanEqual = 188,
        FOrdGreaterThanEqual = 190,
        ShiftRightLogical = 194,
        ShiftRightArithmetic = 195,
        ShiftLeftLogical = 196,
        BitwiseOr = 197,
        BitwiseXor = 198,
        BitwiseAnd = 199,
        Not = 200,
        ControlBarrier = 224,
        AtomicExchange = 229,
        AtomicIAdd = 234,
        AtomicSMin = 236,
        AtomicUMin = 237,
        AtomicSMax = 238,
        AtomicUMax = 239,
        AtomicAnd = 240,
        AtomicOr = 241,
        AtomicXor = 242,
        Phi = 245,
        LoopMerge = 246,
        SelectionMerge = 247,
        Label = 248,
        Branch = 249,
        BranchConditional = 250,
        Return = 253,
        GroupNonUniformBroadcast = 337,
        GroupNonUniformShuffle = 345,
        GroupNonUniformIAdd = 349,
        GroupNonUniformSMin = 353,
        GroupNonUniformUMin = 354,
        GroupNonUniformSMax = 356,
        GroupNonUniformUMax = 357,
        GroupNonUniformBitwiseAnd = 359,
        GroupNonUniformBitwiseOr = 360,
        GroupNonUniformLogicalAnd = 362,
        GroupNonUniformLogicalOr = 363,
        TypeCooperativeMatrixKHR = 4456,
        CooperativeMatrixLoadKHR = 4457,
        CooperativeMatrixStoreKHR = 4458,
        CooperativeMatrixMulAddKHR = 4459,
    }
    /// Of the extended instructions of `GLSL.std.450`.
    GLOp {
        RoundEven = 2,
        Trunc = 3,
        FAbs = 4,
        Floor = 8,
        Ceil = 9,
        Sqrt = 31,
        UMin = 38,
        SMin = 39,
        UMax = 41,
        SMax = 42,
        Fma = 50,
    }
    /// What a module needs.
    Capability {
        Shader = 1,
        Float16 = 9,
        Float64 = 10,
        Int64 = 11,
        GroupNonUniform = 61,
        GroupNonUniformArithmetic = 63,
        GroupNonUniformBallot = 64,
        GroupNonUniformShuffle = 65,
        StorageBuffer16BitAccess = 4433,
        StorageBuffer8BitAccess = 4448,
        DenormPreserve = 4464,
        SignedZeroInfNanPreserve = 4466,
        RoundingModeRTE = 4467,
        VulkanMemoryModel = 5345,
        CooperativeMatrixKHR = 6022,
    }
    /// What pointers are.
    AddressingModel {
        Logical = 0,
    }
    /// Who sees what is stored.
    MemoryModel {
        GLSL450 = 1,
        Vulkan = 3,
    }
    /// What an entry point is.
    ExecutionModel {
        GLCompute = 5,
    }
    /// How an entry point runs.
    ExecutionMode {
        LocalSize = 17,
        DenormPreserve = 4459,
        SignedZeroInfNanPreserve = 4461,
        RoundingModeRTE = 4462,
    }
    /// Kinds of memory.
    StorageClass {
        Input = 1,
        Workgroup = 4,
        PushConstant = 9,
        StorageBuffer = 12,
    }
    /// Input variables.
    BuiltIn {
        NumWorkgroups = 24,
        WorkgroupId = 26,
        LocalInvocationId = 27,
        LocalInvocationIndex = 29,
        SubgroupId = 40,
        SubgroupLocalInvocationId = 41,
    }
    /// What is said of a value besides its type.
    Decoration {
        Block = 2,
        ArrayStride = 6,
        BuiltIn = 11,
        Coherent = 23,
        NonWritable = 24,
        NonReadable = 25,
        Binding = 33,
        DescriptorSet = 34,
        Offset = 35,
        NoContraction = 42,
    }
    /// Who takes part.
    Scope {
        Device = 1,
        Workgroup = 2,
        Subgroup = 3,
    }
    /// Roles of a fragment.
    CooperativeMatrixUse {
        MatrixAKHR = 0,
        MatrixBKHR = 1,
        MatrixAccumulatorKHR = 2,
    }
    /// The layout of a fragment in memory.
    CooperativeMatrixLayout {
        RowMajorKHR = 0,
        ColumnMajorKHR = 1,
    }
}

/// Bits of the meaning of a barrier.
pub(super) mod semantics {
    pub(in super::super) const ACQUIRE_RELEASE: u32 = 1 << 3;
    pub(in super::super) const UNIFORM_MEMORY: u32 = 1 << 6;
    pub(in super::super) const WORKGROUP_MEMORY: u32 = 1 << 8;
    pub(in super::super) const MAKE_AVAILABLE: u32 = 1 << 13;
    pub(in super::super) const MAKE_VISIBLE: u32 = 1 << 14;
}

/// Bits of what an access says of itself.
pub(super) mod access {
    pub(in super::super) const NON_PRIVATE_POINTER: u32 = 1 << 5;
}

/// No bit of a mask: nothing is asked of a function, a branch or a loop.
pub(super) const NONE: u32 = 0;

/// An operation in a group that is a reduction.
pub(super) const REDUCE: u32 = 0;
