package state

// KeptFree is the number of bytes that must stay free on the disk of a host: below that kubelet
// removes images and ends pods, by our own settings (render/kubeadm).
const KeptFree = 2 << 30
