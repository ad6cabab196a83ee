package etcdpod

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/holdfast/holdfast/internal/model/state"
)

// Parse returns the container in a manifest. Its revision is a hash of the whole
// manifest. If podman could not do as the manifest says, Parse returns an error
// instead of leaving that part out.
func Parse(manifest []byte) (state.Container, error) {
	c, err := parse(manifest)
	if err != nil {
		return state.Container{}, fmt.Errorf("read etcd's pod: %w", err)
	}
	hash := sha256.Sum256(manifest)
	c.Revision = hex.EncodeToString(hash[:])
	return c, nil
}

// AddressOf returns the address that a manifest gives etcd on its host.
func AddressOf(manifest []byte) (netip.Addr, error) {
	c, err := Parse(manifest)
	if err != nil {
		return netip.Addr{}, err
	}
	for _, arg := range c.Command {
		if text, ok := strings.CutPrefix(arg, Advertised+"https://"); ok {
			to, err := netip.ParseAddrPort(text)
			return to.Addr(), err
		}
	}
	return netip.Addr{}, errors.New("read etcd's pod: it has no " + Advertised)
}

// pod holds the fields of a pod that podman needs.
type pod struct {
	Kind string `json:"kind"`
	Spec struct {
		HostNetwork    bool        `json:"hostNetwork"`
		InitContainers []any       `json:"initContainers"`
		Containers     []container `json:"containers"`
		Volumes        []volume    `json:"volumes"`
	} `json:"spec"`
}

type container struct {
	Name    string   `json:"name"`
	Image   string   `json:"image"`
	Command []string `json:"command"`
	Args    []string `json:"args"`
	Env     []struct {
		Name      string `json:"name"`
		Value     string `json:"value"`
		ValueFrom any    `json:"valueFrom"`
	} `json:"env"`
	VolumeMounts []volumeMount `json:"volumeMounts"`
}

type volumeMount struct {
	Name        string `json:"name"`
	MountPath   string `json:"mountPath"`
	ReadOnly    bool   `json:"readOnly"`
	SubPath     string `json:"subPath"`
	SubPathExpr string `json:"subPathExpr"`
}

type volume struct {
	Name     string `json:"name"`
	HostPath *struct {
		Path string `json:"path"`
	} `json:"hostPath"`
}

func parse(manifest []byte) (state.Container, error) {
	var tree any
	if err := yaml.UnmarshalStrict(manifest, &tree); err != nil {
		return state.Container{}, err
	}
	if err := unknown(tree, ""); err != nil {
		return state.Container{}, err
	}
	var p pod
	if err := yaml.Unmarshal(manifest, &p); err != nil {
		return state.Container{}, err
	}
	return p.container()
}

func (p pod) container() (state.Container, error) {
	if p.Kind != "Pod" || len(p.Spec.Containers) != 1 || len(p.Spec.InitContainers) != 0 {
		return state.Container{}, errors.New("want one Pod with one container")
	}
	c := p.Spec.Containers[0]
	out := state.Container{Name: c.Name, Image: c.Image, Command: slices.Concat(c.Command, c.Args)}
	var errs []error
	if c.Name != "etcd" || c.Image == "" || len(out.Command) == 0 {
		errs = append(errs, errors.New("spec.containers[0]: want the name etcd, an image and a command"))
	}
	if !p.Spec.HostNetwork {
		errs = append(errs, errors.New("spec.hostNetwork: must be true"))
	}
	for i, e := range c.Env {
		if e.ValueFrom != nil {
			errs = append(errs, fmt.Errorf("spec.containers[0].env[%d]: only plain values can be used without a cluster", i))
		}
		out.Env = append(out.Env, e.Name+"="+e.Value)
	}
	for i, m := range c.VolumeMounts {
		mount, err := p.hostMount(m)
		if err != nil {
			errs = append(errs, fmt.Errorf("spec.containers[0].volumeMounts[%d]: %w", i, err))
		}
		out.Mounts = append(out.Mounts, mount)
	}
	return out, errors.Join(errs...)
}

func (p pod) hostMount(m volumeMount) (state.Mount, error) {
	i := slices.IndexFunc(p.Spec.Volumes, func(v volume) bool { return v.Name == m.Name })
	if i < 0 || p.Spec.Volumes[i].HostPath == nil || m.SubPath != "" || m.SubPathExpr != "" {
		return state.Mount{}, fmt.Errorf("volume %q is not a hostPath, or only a part of it is mounted", m.Name)
	}
	return state.Mount{Source: p.Spec.Volumes[i].HostPath.Path, Target: m.MountPath, ReadOnly: m.ReadOnly}, nil
}
