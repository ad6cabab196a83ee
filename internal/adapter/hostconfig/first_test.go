package hostconfig

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/model/state"
)

// TestAHostReadsTheFirstConfigurationAsItWasServed: its name and its spec, byte for
// byte, in a file for root.
func TestAHostReadsTheFirstConfigurationAsItWasServed(t *testing.T) {
	root := t.TempDir()
	if got, err := First(root); got != nil || err != nil {
		t.Fatalf("a host without one: %v, %v", got, err)
	}
	mc := &mcfgv1.MachineConfig{
		ObjectMeta: metav1.ObjectMeta{Name: "rendered-worker-1", Labels: map[string]string{"a": "b"}, ResourceVersion: "7"},
		Spec: mcfgv1.MachineConfigSpec{
			Config: runtime.RawExtension{Raw: []byte(`{"ignition":{"version":"3.5.0"}}`)}, KernelArguments: []string{"quiet"}, Extensions: []string{},
		},
	}
	file, err := FirstFile(mc)
	if err != nil || file.Path != FirstPath || file.Mode != state.SecretFileMode {
		t.Fatalf("%s has mode %o, %v", file.Path, file.Mode, err)
	}
	if _, err := host.WriteFiles(root, []state.File{file}); err != nil {
		t.Fatal(err)
	}
	got, err := First(root)
	if err != nil {
		t.Fatal(err)
	}
	want := &mcfgv1.MachineConfig{ObjectMeta: metav1.ObjectMeta{Name: mc.Name}, Spec: mc.Spec}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestADamagedFirstConfigurationIsAnError that quotes nothing of it.
func TestADamagedFirstConfigurationIsAnError(t *testing.T) {
	for text, want := range map[string]string{
		`{"spec": hush`: "read " + FirstPath + ": ",
		`{}`:            "is not the name of a MachineConfig",
		`{"metadata": {"name": "../../etc/hush"}}`: "is not the name of a MachineConfig",
	} {
		root := t.TempDir()
		if err := host.WriteFileAtomic(filepath.Join(root, FirstPath), []byte(text), state.SecretFileMode); err != nil {
			t.Fatal(err)
		}
		got, err := First(root)
		if got != nil || err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "spec") {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
}
