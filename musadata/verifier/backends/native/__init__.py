"""What the cuda and the musa backend share: candidates whose kernels run natively on a device."""
