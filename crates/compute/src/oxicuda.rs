//! The trait of the crate `oxicuda-backend`, for programs that are written against it.

use crate::ComputeBackend as Ours;
use crate::products::Rounding;
use crate::raw::Raw;
use crate::types;
use elinvar_ops::Backend;
use oxicuda_backend::{
    BackendError, BackendResult, BackendTranspose, BinaryOp, Capabilities, ComputeBackend, DeviceInfo,
    MemoryKind, MixedPrecision, ReduceOp, UnaryOp,
};

impl From<types::BackendError> for BackendError {
    fn from(e: types::BackendError) -> Self {
        match e {
            types::BackendError::Unsupported(what) => BackendError::Unsupported(what),
            types::BackendError::DeviceError(what) => BackendError::DeviceError(what),
            types::BackendError::InvalidArgument(what) => BackendError::InvalidArgument(what),
            types::BackendError::OutOfMemory => BackendError::OutOfMemory,
            types::BackendError::NotInitialized => BackendError::NotInitialized,
        }
    }
}

macro_rules! same_names {
    ($($Enum:ident { $($Variant:ident),* })*) => {$(
        impl From<$Enum> for types::$Enum {
            fn from(x: $Enum) -> Self {
                match x {
                    $($Enum::$Variant => types::$Enum::$Variant,)*
                }
            }
        }
    )*};
}
same_names! {
    BackendTranspose { NoTrans, Trans, ConjTrans }
    ReduceOp { Sum, Max, Min, Mean }
    UnaryOp { Relu, Sigmoid, Tanh, Exp, Log, Sqrt, Abs, Neg }
    BinaryOp { Add, Sub, Mul, Div, Max, Min }
}

/// Is the device the host?
fn is_host(name: &str) -> bool {
    matches!(name, "cpu" | "reference")
}

/// Methods that hand their arguments on, as they are or as our enums.
macro_rules! hand_on {
    ($($name:ident($($arg:ident: $t:ty $(as $how:ident)?),*);)*) => {$(
        fn $name(&self $(, $arg: $t)*) -> BackendResult<()> {
            Ok(Raw::$name(self $(, hand_on!(@ $arg $($how)?))*)?)
        }
    )*};
    ($($name:ident by Ours($($arg:ident: $t:ty $(as $how:ident)?),*);)*) => {$(
        fn $name(&self $(, $arg: $t)*) -> BackendResult<()> {
            Ok(Ours::$name(self $(, hand_on!(@ $arg $($how)?))*)?)
        }
    )*};
    (@ $arg:ident) => { $arg };
    (@ $arg:ident ours) => { $arg.into() };
}

impl<B: Backend> ComputeBackend for Raw<B> {
    fn name(&self) -> &str {
        Ours::name(self)
    }
    fn init(&mut self) -> BackendResult<()> {
        Ok(Ours::init(self)?)
    }
    fn is_initialized(&self) -> bool {
        Ours::is_initialized(self)
    }
    /// What holds for every backend of the library: of what a device has beyond that, its kernels
    /// make use by themselves.
    fn capabilities(&self) -> Capabilities {
        Capabilities { unified_memory: is_host(Ours::name(self)), ..Capabilities::default() }
    }
    /// The one device. Its memory is not known to every backend, and is given as 0.
    fn available_devices(&self) -> BackendResult<Vec<DeviceInfo>> {
        let name = self.device().to_string();
        let ordinal = name.split_once(':').and_then(|(_, n)| n.parse().ok()).unwrap_or(0);
        Ok(vec![DeviceInfo {
            ordinal,
            memory_kind: if is_host(Ours::name(self)) { MemoryKind::Host } else { MemoryKind::Device },
            name,
            compute_capability: (0, 0),
            total_memory_bytes: 0,
            capabilities: ComputeBackend::capabilities(self),
        }])
    }
    hand_on! {
        gemm by Ours(
            trans_a: BackendTranspose as ours, trans_b: BackendTranspose as ours, m: usize, n: usize, k: usize,
            alpha: f64, a_ptr: u64, lda: usize, b_ptr: u64, ldb: usize, beta: f64, c_ptr: u64, ldc: usize
        );
        conv2d_forward by Ours(
            input_ptr: u64, input_shape: &[usize], filter_ptr: u64, filter_shape: &[usize], output_ptr: u64,
            output_shape: &[usize], stride: &[usize], padding: &[usize]
        );
        attention by Ours(
            q_ptr: u64, k_ptr: u64, v_ptr: u64, o_ptr: u64, batch: usize, heads: usize, seq_q: usize,
            seq_kv: usize, head_dim: usize, scale: f64, causal: bool
        );
        reduce by Ours(op: ReduceOp as ours, input_ptr: u64, output_ptr: u64, shape: &[usize], axis: usize);
        unary by Ours(op: UnaryOp as ours, input_ptr: u64, output_ptr: u64, n: usize);
        binary by Ours(op: BinaryOp as ours, a_ptr: u64, b_ptr: u64, output_ptr: u64, n: usize);
        batched_gemm by Ours(
            trans_a: BackendTranspose as ours, trans_b: BackendTranspose as ours, m: usize, n: usize, k: usize,
            alpha: f64, a_ptr: u64, lda: usize, stride_a: usize, b_ptr: u64, ldb: usize, stride_b: usize,
            beta: f64, c_ptr: u64, ldc: usize, stride_c: usize, batch_count: usize
        );
        synchronize by Ours();
        free by Ours(ptr: u64);
        copy_htod by Ours(dst: u64, src: &[u8]);
        copy_dtoh by Ours(dst: &mut [u8], src: u64);
    }
    hand_on! {
        conv2d_backward_data(
            grad_output_ptr: u64, grad_output_shape: &[usize], filter_ptr: u64, filter_shape: &[usize],
            grad_input_ptr: u64, grad_input_shape: &[usize], stride: &[usize], padding: &[usize]
        );
        conv2d_backward_filter(
            input_ptr: u64, input_shape: &[usize], grad_output_ptr: u64, grad_output_shape: &[usize],
            grad_filter_ptr: u64, grad_filter_shape: &[usize], stride: &[usize], padding: &[usize]
        );
        softmax(input_ptr: u64, output_ptr: u64, shape: &[usize], axis: usize);
        gather(input_ptr: u64, indices: &[usize], output_ptr: u64, rows: usize, cols: usize);
        scatter(input_ptr: u64, indices: &[usize], output_ptr: u64, rows: usize, cols: usize);
    }
    fn gemm_mixed_precision(
        &self,
        prec: MixedPrecision,
        trans_a: BackendTranspose,
        trans_b: BackendTranspose,
        m: usize,
        n: usize,
        k: usize,
        alpha: f32,
        a_ptr: u64,
        lda: usize,
        b_ptr: u64,
        ldb: usize,
        beta: f32,
        c_ptr: u64,
        ldc: usize,
    ) -> BackendResult<()> {
        let to = match prec {
            MixedPrecision::F16 => Rounding::F16,
            MixedPrecision::Bf16 => Rounding::BF16,
        };
        let (ta, tb) = (trans_a.into(), trans_b.into());
        Ok(Raw::gemm_mixed_precision(
            self, to, ta, tb, m, n, k, alpha, a_ptr, lda, b_ptr, ldb, beta, c_ptr, ldc,
        )?)
    }
    fn alloc(&self, bytes: usize) -> BackendResult<u64> {
        Ok(Ours::alloc(self, bytes)?)
    }
}
