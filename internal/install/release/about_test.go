package release

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast/holdfast/internal/decide/upgrade/gate"
	"github.com/holdfast/holdfast/internal/model/payload"
)

func TestAReleaseSaysOfItselfWhatTheGatesOfAnUpgradeAsk(t *testing.T) {
	m := testStore(t).Manifest()
	got, err := m.Release()
	if err != nil || !got.Known {
		t.Fatalf("%v, known %v", err, got.Known)
	}
	r := got.Value
	if r.Digest != m.Digest || r.Name != "Holdfast "+r.Version.String() || r.Verified {
		t.Errorf("%+v", r)
	}
	for what, pair := range map[string][2]string{
		"Holdfast": {"v" + r.Version.String(), payload.Version}, "Kubernetes": {"v" + r.Kubernetes.String(), payload.KubernetesVersion},
		"etcd": {"v" + r.Etcd.String(), payload.EtcdVersion},
	} {
		if pair[0] != pair[1] {
			t.Errorf("%s is %s, want %s", what, pair[0], pair[1])
		}
	}
	if r.Version.Compare(r.Least) < 0 || r.LeastEtcd == (gate.Version{}) || r.Network == "" || r.Steps.Max == 0 || len(r.StoredVersions) == 0 {
		t.Errorf("%+v", r)
	}
	want := gate.Format{Reads: gate.Range{Min: 1, Max: 1}, Writes: 1}
	if diff := cmp.Diff(want, r.Formats[payload.FormatRecord]); diff != "" || len(r.Formats) != len(payload.Present().Formats) {
		t.Errorf("%d formats: %s", len(r.Formats), diff)
	}
}

func TestAnOlderReleaseThatSaysNothingOfItselfOpensAndIsUnknown(t *testing.T) {
	const about = `{"version":"v0.1.0","platform":"linux/amd64","goVersion":"go1.26.0","components":null,"images":null}`
	index, err := json.Marshal(map[string]any{"schemaVersion": 2, "annotations": map[string]string{annotationManifest: about}})
	if err != nil {
		t.Fatal(err)
	}
	m, err := manifestOf(index)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := m.Release(); err != nil || got.Known {
		t.Errorf("known %v, %v", got.Known, err)
	}
	again, err := json.Marshal(Manifest{Version: m.Version, Platform: m.Platform, GoVersion: m.GoVersion})
	if err != nil || string(again) != about {
		t.Errorf("a manifest without the new fields is written as %s, %v", again, err)
	}
}

func TestAReleaseWithAVersionThatNobodyCanReadIsNamed(t *testing.T) {
	about := payload.Present()
	about.Etcd = "3.6"
	_, err := Manifest{Version: payload.Version, Digest: "sha256:1", About: &about}.Release()
	if want := `release sha256:1: etcd: version "3.6": want three numbers such as 1.36.3`; err == nil || err.Error() != want {
		t.Errorf("%v", err)
	}
}

func TestAReaderLeavesOutWhatALaterReleaseSaysOfItself(t *testing.T) {
	var m Manifest
	if err := json.Unmarshal([]byte(`{"version":"v0.9.0","later":1,"about":{"kubernetes":"v1.37.0","etcd":"v3.6.20","leastEtcd":"v3.6.12","least":"v0.2.0","formats":[{"name":"etcd-record","reads":{"min":1,"max":2},"writes":1,"later":true}],"later":[]}}`), &m); err != nil {
		t.Fatal(err)
	}
	got, err := m.Release()
	if err != nil || got.Value.Formats["etcd-record"].Reads.Max != 2 {
		t.Errorf("%+v, %v", got, err)
	}
}
