package etcdpod

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/holdfast/holdfast/internal/state"
)

// Parse returns the container that a manifest describes. Its revision is a hash
// of the whole manifest. What podman would not do as the manifest says is an
// error, not left out.
func Parse(manifest []byte) (state.Container, error) {
	var pod corev1.Pod
	if err := yaml.UnmarshalStrict(manifest, &pod); err != nil {
		return state.Container{}, fmt.Errorf("read etcd's pod: %w", err)
	}
	c, err := container(pod)
	if err != nil {
		return state.Container{}, fmt.Errorf("read etcd's pod: %w", err)
	}
	hash := sha256.Sum256(manifest)
	c.Revision = hex.EncodeToString(hash[:])
	return c, nil
}

// AddressOf is the address that a manifest gives etcd on its host.
func AddressOf(manifest []byte) (netip.Addr, error) {
	c, err := Parse(manifest)
	if err != nil {
		return netip.Addr{}, err
	}
	for _, arg := range c.Command {
		if text, ok := strings.CutPrefix(arg, advertised+"https://"); ok {
			to, err := netip.ParseAddrPort(text)
			return to.Addr(), err
		}
	}
	return netip.Addr{}, errors.New("read etcd's pod: it has no " + advertised)
}

func container(pod corev1.Pod) (state.Container, error) {
	if pod.Kind != "Pod" || len(pod.Spec.Containers) != 1 || len(pod.Spec.InitContainers) != 0 {
		return state.Container{}, errors.New("want one Pod with one container")
	}
	c := pod.Spec.Containers[0]
	out := state.Container{Name: c.Name, Image: c.Image, Command: slices.Concat(c.Command, c.Args)}
	var errs []error
	if c.Name != "etcd" || c.Image == "" || len(out.Command) == 0 {
		errs = append(errs, errors.New("spec.containers[0]: want the name etcd, an image and a command"))
	}
	if !pod.Spec.HostNetwork {
		errs = append(errs, errors.New("spec.hostNetwork: must be true"))
	}
	for i, e := range c.Env {
		if e.ValueFrom != nil {
			errs = append(errs, fmt.Errorf("spec.containers[0].env[%d]: only plain values can be used without a cluster", i))
		}
		out.Env = append(out.Env, e.Name+"="+e.Value)
	}
	for i, m := range c.VolumeMounts {
		mount, err := hostMount(pod, m)
		if err != nil {
			errs = append(errs, fmt.Errorf("spec.containers[0].volumeMounts[%d]: %w", i, err))
		}
		out.Mounts = append(out.Mounts, mount)
	}
	return out, errors.Join(errs...)
}

func hostMount(pod corev1.Pod, m corev1.VolumeMount) (state.Mount, error) {
	i := slices.IndexFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == m.Name })
	if i < 0 || pod.Spec.Volumes[i].HostPath == nil || m.SubPath != "" || m.SubPathExpr != "" {
		return state.Mount{}, fmt.Errorf("volume %q is no hostPath, or only a part of it is mounted", m.Name)
	}
	return state.Mount{Source: pod.Spec.Volumes[i].HostPath.Path, Target: m.MountPath, ReadOnly: m.ReadOnly}, nil
}
