package machineconfig_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	configv1 "github.com/openshift/api/config/v1"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	"sigs.k8s.io/yaml"

	"github.com/holdfast/holdfast/internal/decide/machineconfig"
	"github.com/holdfast/holdfast/internal/model/ignition"
	"github.com/holdfast/holdfast/internal/testkit/golden"
)

// sets returns the objects of a cluster with one pool and sets of mirrors, each written as
// its name and the list of its spec.
func sets(t testing.TB, digests, tags map[string]string) machineconfig.Objects {
	t.Helper()
	all := machineconfig.Objects{Pools: []mcfgv1.MachineConfigPool{poolNamed("worker")}}
	for name, list := range digests {
		var o configv1.ImageDigestMirrorSet
		if err := yaml.UnmarshalStrict([]byte(fmt.Sprintf("{metadata: {name: %s}, spec: {imageDigestMirrors: %s}}", name, list)), &o); err != nil {
			t.Fatal(err)
		}
		all.DigestMirrors = append(all.DigestMirrors, o)
	}
	for name, list := range tags {
		var o configv1.ImageTagMirrorSet
		if err := yaml.UnmarshalStrict([]byte(fmt.Sprintf("{metadata: {name: %s}, spec: {imageTagMirrors: %s}}", name, list)), &o); err != nil {
			t.Fatal(err)
		}
		all.TagMirrors = append(all.TagMirrors, o)
	}
	return all
}

// mirrorsOf returns the files of a pool's configuration, each after its path.
func mirrorsOf(t testing.TB, all machineconfig.Objects) string {
	t.Helper()
	made, err := machineconfig.Of(&all.Pools[0], all)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for _, f := range made.Config.Ignition.Storage.Files {
		data, err := ignition.Contents(f.Contents)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&out, "=== %s\n%s", f.Path, data)
	}
	// A host reads the configuration once more, and checks the files as containerd does.
	if _, err := machineconfig.Read(*made.Object()); err != nil {
		t.Errorf("a host refuses it: %v", err)
	}
	return out.String()
}

// TestMirrorsOfSetsAreWrittenForContainerdIsApproved: digests alone, digests and tags, a
// mirror below a path, a port, a source that is never asked, and lists of several objects.
func TestMirrorsOfSetsAreWrittenForContainerdIsApproved(t *testing.T) {
	all := sets(t, map[string]string{
		"a": "[{source: docker.io, mirrors: [a.example, b.example/hub, c.example]}, {source: 'quay.example:8443', mirrors: [m.example/quay], mirrorSourcePolicy: AllowContactingSource}]",
		"b": "[{source: docker.io, mirrors: [c.example, d.example]}, {source: never.example, mirrors: ['one.example:5000', two.example/a/b], mirrorSourcePolicy: NeverContactSource}, {source: none.example}]",
	}, map[string]string{
		"t": "[{source: docker.io, mirrors: [b.example/hub]}, {source: never.example, mirrors: [two.example/a/b], mirrorSourcePolicy: NeverContactSource}]",
	})
	golden.Check(t, "mirrorsets.txt", []byte(mirrorsOf(t, all)))

	made, err := machineconfig.Of(&all.Pools[0], all)
	if err != nil || !slices.Equal(made.Sources, []string{"ImageDigestMirrorSet/a", "ImageDigestMirrorSet/b", "ImageTagMirrorSet/t"}) {
		t.Errorf("%v, %v", made.Sources, err)
	}
	slices.Reverse(all.DigestMirrors)
	if again, err := machineconfig.Of(&all.Pools[0], all); err != nil || again.Name != made.Name {
		t.Errorf("the order in which the API lists them counts: %s, %v, before %s", again.Name, err, made.Name)
	}
}

func TestListsOfMirrorsKeepTheirOrder(t *testing.T) {
	for want, lists := range map[string][2]string{
		"a b c d e": {"a.io, b.io, c.io", "c.io, d.io, e.io"},
		"x a b":     {"a.io, b.io", "x.io, a.io"},
		"a x b":     {"a.io, b.io", "a.io, x.io, b.io"},
		"a b":       {"a.io, b.io", "b.io, a.io"}, // no order keeps both
	} {
		got := mirrorsOf(t, sets(t, map[string]string{
			"1": "[{source: s.io, mirrors: [" + lists[0] + "]}]", "2": "[{source: s.io, mirrors: [" + lists[1] + "]}]",
		}, nil))
		var order []string
		for line := range strings.Lines(got) {
			if rest, is := strings.CutPrefix(line, `[host."https://`); is {
				order = append(order, strings.TrimSuffix(rest, ".io\"]\n"))
			}
		}
		if strings.Join(order, " ") != want {
			t.Errorf("%v: %v, want %s", lists, order, want)
		}
	}
}

// TestWhatContainerdCannotHaveOfASetIsRefused in words, with the field of each object.
func TestWhatContainerdCannotHaveOfASetIsRefused(t *testing.T) {
	const differs = "spec.%s.0.mirrorSourcePolicy: %s has another policy for s.io, and containerd asks the source or does not\n"
	for _, c := range []struct {
		sentence      string
		digests, tags map[string]string
		want          string
	}{
		{
			"a domain",
			map[string]string{"a": "[{source: '*.s.io', mirrors: [m.io]}]"},
			nil,
			"ImageDigestMirrorSet a: spec.imageDigestMirrors.0.source: containerd has no mirrors for all hosts of a domain; name each registry\n",
		},
		{
			"a part of a registry, and another mistake",
			map[string]string{"a": "[{source: ok.io, mirrors: [m.io]}, {source: s.io/team, mirrors: [m.io]}]"},
			map[string]string{"t": "[{source: s.io, mirrors: [m.io]}]"},
			"ImageDigestMirrorSet a: spec.imageDigestMirrors.1.source: containerd knows mirrors of a whole registry only, and would ask them for all its images; write the registry alone, as s.io\n" +
				"ImageTagMirrorSet t: spec.imageTagMirrors.0.mirrors.0: containerd would ask it for digests too; name it in an ImageDigestMirrorSet as well, or nowhere\n",
		},
		{
			"no registry",
			map[string]string{"a": "[{source: _default, mirrors: [m.io]}]"},
			nil,
			"ImageDigestMirrorSet a: spec.imageDigestMirrors.0.source: \"_default\" is not the name of a registry, as HOST or HOST:PORT\n",
		},
		{
			"no address",
			map[string]string{"a": "[{source: s.io, mirrors: [m.io, '']}]"},
			nil,
			"ImageDigestMirrorSet a: spec.imageDigestMirrors.0.mirrors.1: is not the URL of a registry, as https://registry.example:5000\n",
		},
		{
			"tags alone", nil,
			map[string]string{"t": "[{source: s.io, mirrors: [m.io]}]"},
			"ImageTagMirrorSet t: spec.imageTagMirrors.0.mirrors.0: containerd would ask it for digests too; name it in an ImageDigestMirrorSet as well, or nowhere\n",
		},
		{
			"tags of another mirror",
			map[string]string{"a": "[{source: s.io, mirrors: [m.io]}]"},
			map[string]string{"t": "[{source: s.io, mirrors: [m.io, n.io]}]"},
			"ImageTagMirrorSet t: spec.imageTagMirrors.0.mirrors.1: containerd would ask it for digests too; name it in an ImageDigestMirrorSet as well, or nowhere\n",
		},
		{
			"nobody is asked",
			map[string]string{"a": "[{source: s.io, mirrorSourcePolicy: NeverContactSource}]"},
			nil,
			"ImageDigestMirrorSet a: spec.imageDigestMirrors.0.mirrorSourcePolicy: without a mirror no image of the registry could be pulled; name a mirror, or leave it out\n",
		},
		{
			"the source is a mirror and never asked",
			map[string]string{"a": "[{source: s.io, mirrors: [m.io, s.io], mirrorSourcePolicy: NeverContactSource}]"},
			nil,
			"ImageDigestMirrorSet a: spec.imageDigestMirrors.0.mirrors.1: is the source, which mirrorSourcePolicy forbids\n",
		},
		{
			"two policies of digests",
			map[string]string{"a": "[{source: s.io, mirrors: [m.io]}]", "b": "[{source: s.io, mirrors: [m.io], mirrorSourcePolicy: NeverContactSource}]"},
			nil,
			fmt.Sprintf("ImageDigestMirrorSet b: "+differs, "imageDigestMirrors", "ImageDigestMirrorSet a") + fmt.Sprintf("ImageDigestMirrorSet a: "+differs, "imageDigestMirrors", "ImageDigestMirrorSet b"),
		},
		{
			"two policies of digests and tags",
			map[string]string{"a": "[{source: s.io, mirrors: [m.io], mirrorSourcePolicy: NeverContactSource}]"},
			map[string]string{"t": "[{source: s.io, mirrors: [m.io]}]"},
			fmt.Sprintf("ImageTagMirrorSet t: "+differs, "imageTagMirrors", "ImageDigestMirrorSet a") + fmt.Sprintf("ImageDigestMirrorSet a: "+differs, "imageDigestMirrors", "ImageTagMirrorSet t"),
		},
	} {
		all := sets(t, c.digests, c.tags)
		_, err := machineconfig.Of(&all.Pools[0], all)
		if _, ok := errors.AsType[machineconfig.Mistakes](err); !ok || err.Error()+"\n" != c.want {
			t.Errorf("%s: %v\nwant %s", c.sentence, err, c.want)
		}
	}
}

// TestASetAndAMachineConfigForTheSameRegistryAreRefused: containerd reads one folder of a
// registry, under either name, and no certificates beside a file of mirrors.
func TestASetAndAMachineConfigForTheSameRegistryAreRefused(t *testing.T) {
	all := sets(t, map[string]string{"a": "[{source: 's.io:5000', mirrors: [m.io]}]"}, nil)
	with := func(path string) error {
		all.MachineConfigs = []mcfgv1.MachineConfig{made(t, "50-mirror", withFiles(
			`{path: /etc/motd, contents: {source: "data:,"}}`, fmt.Sprintf(`{path: "/etc/containerd/certs.d/%s", contents: {source: "data:,"}}`, path)))}
		_, err := machineconfig.Of(&all.Pools[0], all)
		return err
	}
	for _, path := range []string{"s.io:5000/hosts.toml", "s.io_5000_/hosts.toml", "s.io:5000/ca.crt"} {
		want := "ImageDigestMirrorSet a: spec.imageDigestMirrors.0.source: MachineConfig 50-mirror has /etc/containerd/certs.d/" + path + " for the same registry; name its mirrors in one of both\n" +
			"MachineConfig 50-mirror: spec.config.storage.files.1.path: ImageDigestMirrorSet a names mirrors of s.io:5000 too; name them in one of both"
		if err := with(path); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", path, err, want)
		}
	}
	for _, path := range []string{"s.io/hosts.toml", "_default/hosts.toml"} {
		if err := with(path); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// TestSetsOfMirrorsAreWantedLikeTheOthers: config apply and config diff go by this.
func TestSetsOfMirrorsAreWantedLikeTheOthers(t *testing.T) {
	now := sets(t, map[string]string{"a": "[{source: s.io, mirrors: [m.io]}]"}, nil)
	next := sets(t, map[string]string{"a": "[{source: s.io, mirrors: [m.io, n.io]}]"}, map[string]string{"t": "[{source: s.io, mirrors: [n.io]}]"})
	wanted := machineconfig.Wanted{}.Add(machineconfig.Wanted{DigestMirrors: next.DigestMirrors, TagMirrors: next.TagMirrors})
	if err := now.Check(wanted); err != nil {
		t.Error(err)
	}
	if got := mirrorsOf(t, now.With(wanted)); got != mirrorsOf(t, next) || got == mirrorsOf(t, now) {
		t.Errorf("%s", got)
	}
	var verbs []string
	for _, w := range now.Writes(wanted) {
		verbs = append(verbs, fmt.Sprint(w.Verb, " ", w.Kind, "/", w.Name))
	}
	if !slices.Equal(verbs, []string{"updated ImageDigestMirrorSet/a", "created ImageTagMirrorSet/t"}) {
		t.Errorf("%q", verbs)
	}
	wrong := machineconfig.Wanted{TagMirrors: next.TagMirrors}
	if err := now.Check(wrong); err == nil || !strings.HasPrefix(err.Error(), "ImageTagMirrorSet t: spec.imageTagMirrors.0.mirrors.0: ") {
		t.Errorf("%v", err)
	}
}
