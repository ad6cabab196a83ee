package machineconfig

import (
	"testing"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	decide "github.com/holdfast/holdfast/internal/decide/machineconfig"
)

// TestMirrorsOfSetsReachAllPools, by objects that people bring from upstream, and a set
// that containerd cannot have is told with its field and reaches no pool.
func TestMirrorsOfSetsReachAllPools(t *testing.T) {
	s := newSite(t)
	s.settle()
	s.apply(
		`{apiVersion: config.openshift.io/v1, kind: ImageDigestMirrorSet, metadata: {name: site}, spec: {imageDigestMirrors: [{source: "quay.io:443", mirrors: [mirror.example/quay], mirrorSourcePolicy: NeverContactSource}]}}`,
		`{apiVersion: config.openshift.io/v1, kind: ImageTagMirrorSet, metadata: {name: site}, spec: {imageTagMirrors: [{source: "quay.io:443", mirrors: [mirror.example/quay], mirrorSourcePolicy: NeverContactSource}]}}`,
	)
	s.settle()
	for _, pool := range []string{"master", "worker"} {
		made := s.pool(pool).Spec.Configuration
		mc := &mcfgv1.MachineConfig{}
		must(t, s.admin.Get(t.Context(), client.ObjectKey{Name: made.Name}, mc))
		cfg, err := decide.Read(*mc)
		if files := cfg.Ignition.Storage.Files; err != nil || len(files) != 3 || files[0].Path != "/etc/containerd/certs.d/quay.io_443_/hosts.toml" {
			t.Errorf("%s is to have %+v, %v", pool, files, err)
		}
		if len(made.Source) != 2 || made.Source[0].Kind != decide.DigestMirrorSet || made.Source[1].Kind != decide.TagMirrorSet || made.Source[1].APIVersion != "config.openshift.io/v1" {
			t.Errorf("%s is made from %+v", pool, made.Source)
		}
	}
	before := s.pool("worker").Spec.Configuration.Name
	s.apply(`{apiVersion: config.openshift.io/v1, kind: ImageDigestMirrorSet, metadata: {name: wrong}, spec: {imageDigestMirrors: [{source: quay.io/team, mirrors: [m.example/team]}]}}`)
	s.looks()
	s.has("worker", refused, "True ImageDigestMirrorSet wrong: spec.imageDigestMirrors.0.source: containerd knows mirrors of a whole registry only")
	if got := s.pool("worker").Spec.Configuration.Name; got != before {
		t.Errorf("workers are to have %s", got)
	}
}
