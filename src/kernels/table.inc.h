/* table.inc.h: the table of one instruction set, included once by each kernels_*.c.
 *
 * The includer defines LAP_ISA(name), which gives a body its suffix, and LAP_ISA_NAME. What is
 * elementwise has one body, compiled for each instruction set by the compiler. */

static void rms_norm(const float *x, const float *w, int n, float eps, float *y) {
  LAP_ISA(lap_rms_norm)(x, w, n, eps, y);
}

static void quantize_row(const float *x, int n, int block, const lap_qrow *row) {
  if (block == 64) {
    LAP_ISA(lap_quantize_row)(x, n, 64, row);
  } else {
    LAP_ISA(lap_quantize_row)(x, n, 32, row);
  }
}

static void matmul_int16(const lap_imatrix *w, const float *x, size_t x_stride, int x_rows, int rows,
                         float *y, size_t y_stride) {
  LAP_ISA(lap_matmul_int16)(w, x, x_stride, x_rows, rows, y, y_stride);
}

static void geglu(const float *gate, const float *up, int n, float *y) {
  LAP_ISA(lap_geglu)(gate, up, n, y);
}

static void softcap(float *y, int n, float cap) {
  LAP_ISA(lap_softcap)(y, n, cap);
}

static float exponential(float x) {
  return lap_exp_portable(x);
}

static void rope(float *x, int head_dim, int pairs, const float *cosine, const float *sine) {
  lap_rope_apply(x, head_dim, pairs, cosine, sine);
}

static float softmax_block(float *s, int first, int last, float *m, float *l) {
  return LAP_ISA(lap_softmax_block)(s, first, last, m, l);
}

static void affine_quantize_row(const float *x, int n, int bits, int group_size, lap_format format,
                                unsigned char *codes, void *scales, void *biases) {
  lap_affine_quantize_row(x, n, bits, group_size, format, codes, scales, biases);
}

const lap_kernels LAP_ISA(lap_kernels) = {
    .name = LAP_ISA_NAME,
    .rms_norm = rms_norm,
    .quantize_row = quantize_row,
    .matmul_quantized = matmul_quantized,
    .matmul_dense = matmul_dense,
    .matmul_int16 = matmul_int16,
    .geglu = geglu,
    .softcap = softcap,
    .exp = exponential,
    .rope = rope,
    .softmax_block = softmax_block,
    .values = values,
    .affine_quantize_row = affine_quantize_row,
};
