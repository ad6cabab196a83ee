package release

import (
	"fmt"
	"strings"

	"github.com/holdfast/holdfast/internal/decide/upgrade/gate"
	"github.com/holdfast/holdfast/internal/model/payload"
	"github.com/holdfast/holdfast/internal/model/state"
)

// Release returns what the release says of itself, as the gates of an upgrade read
// it. It is unknown for a release of a time before releases said so. Verified is
// false: whoever compared its blobs sets it. Stack is empty if the release leaves
// the packages below etcd to the distribution.
func (m Manifest) Release() (state.Fact[gate.Release], error) {
	if m.About == nil {
		return state.Fact[gate.Release]{}, nil
	}
	a := *m.About
	out := gate.Release{
		Name: "Holdfast " + strings.TrimPrefix(m.Version, "v"), Digest: m.Digest, Formats: formatsOf(a), Steps: gate.Range(a.Steps),
		Network: a.Network, StoredVersions: a.StoredVersions, Stack: a.Stack, Images: map[string]string{},
	}
	for _, name := range payload.ClusterImages() {
		if image, has := m.Image(name); has {
			out.Images[name] = image.Ref
		}
	}
	for _, v := range []struct {
		what, text string
		to         *gate.Version
	}{
		{"Holdfast", m.Version, &out.Version},
		{"the least Holdfast", a.Least, &out.Least},
		{"Kubernetes", a.Kubernetes, &out.Kubernetes},
		{"etcd", a.Etcd, &out.Etcd},
		{"the least etcd", a.LeastEtcd, &out.LeastEtcd},
	} {
		read, err := gate.ParseVersion(v.text)
		if err != nil {
			return state.Fact[gate.Release]{}, fmt.Errorf("release %s: %s: %w", m.Digest, v.what, err)
		}
		*v.to = read
	}
	return state.Known(out), nil
}

func formatsOf(a payload.About) map[string]gate.Format {
	out := map[string]gate.Format{}
	for _, f := range a.Formats {
		out[f.Name] = gate.Format{Reads: gate.Range(f.Reads), Writes: f.Writes}
	}
	return out
}
