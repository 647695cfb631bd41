//! The layers, one file each.
//!
//! A layer is a struct of its weights and settings, and computes an op of the catalogue; names,
//! layouts, defaults and initial values of the weights are PyTorch's.

mod activation;
pub(crate) mod attention;
mod batch_norm;
mod cell;
mod conv;
mod conv_transpose;
mod dropout;
mod embedding;
mod instance_norm;
mod kv_cache;
mod linear;
mod local_response_norm;
mod multihead_attention;
mod norm;
mod pad;
mod per_axis;
mod pool;
pub(crate) mod positions;
pub mod recurrent;
mod reshape;
mod rotary;
mod sync_batch_norm;
mod transformer;
mod upsample;

pub use activation::{
    CELU, ELU, GELU, GLU, Hardshrink, Hardsigmoid, Hardswish, Hardtanh, LeakyReLU, LogSigmoid, LogSoftmax,
    Mish, PReLU, ReLU, ReLU6, SELU, SiLU, Sigmoid, Softmax, Softplus, Softshrink, Softsign, Tanh, Tanhshrink,
    Threshold, swiglu,
};
pub use attention::{Attention, AttentionContext, AttentionOptions, attend};
pub use batch_norm::{BatchNorm, BatchNorm1d, BatchNorm2d, BatchNorm3d};
pub use cell::{Cell, GRUCell, LSTMCell, RNNCell, ReluRNNCell};
pub use conv::{
    Conv, Conv1d, Conv1dOptions, Conv2d, Conv2dOptions, Conv3d, Conv3dOptions, ConvOptions, PaddingMode,
};
pub use conv_transpose::{
    ConvTranspose, ConvTranspose1d, ConvTranspose1dOptions, ConvTranspose2d, ConvTranspose2dOptions,
    ConvTranspose3d, ConvTranspose3dOptions, ConvTransposeOptions,
};
pub use dropout::{AlphaDropout, Dropout, Dropout1d, Dropout2d, Dropout3d, DropoutChannels};
pub use embedding::Embedding;
pub use instance_norm::{InstanceNorm, InstanceNorm1d, InstanceNorm2d, InstanceNorm3d};
pub use kv_cache::KvCache;
pub use linear::Linear;
pub use local_response_norm::LocalResponseNorm;
pub use multihead_attention::{AttentionMasks, MultiheadAttention, MultiheadAttentionOptions};
pub use norm::{GroupNorm, LayerNorm, RMSNorm};
pub use pad::Pad;
pub use per_axis::PerAxis;
pub use pool::{
    AdaptiveAvgPool, AdaptiveAvgPool1d, AdaptiveAvgPool2d, AdaptiveAvgPool3d, AdaptiveMaxPool,
    AdaptiveMaxPool1d, AdaptiveMaxPool2d, AdaptiveMaxPool3d, AvgPool, AvgPool1d, AvgPool2d, AvgPool3d,
    MaxPool, MaxPool1d, MaxPool2d, MaxPool3d,
};
pub use positions::SinusoidalPositions;
pub use recurrent::{
    GRU, GRUOptions, LSTM, LSTMOptions, RNN, RNNOptions, Recurrent, RecurrentOptions, ReluRNN, ReluRNNOptions,
};
pub use reshape::{Flatten, Identity, PixelShuffle, PixelUnshuffle, Unflatten};
pub use rotary::{Rotary, RotaryScaling, RotaryTable};
pub use sync_batch_norm::convert_sync_batchnorm;
pub use transformer::{
    MlpActivation, TransformerDecoder, TransformerDecoderLayer, TransformerEncoder, TransformerEncoderLayer,
    TransformerOptions,
};
pub use upsample::Upsample;
