package install

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/render/apiserver"
)

func mode(t *testing.T, path string) fs.FileMode {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Mode().Perm()
}

func TestTheFilesOfTheAPIServerAndItsLogAreForRootAlone(t *testing.T) {
	r, _ := newRun(t, state.RoleMaster)
	root := t.TempDir()
	// Kubelet may have made it readable for everybody before.
	if err := os.MkdirAll(filepath.Join(root, apiserver.AuditDir), 0o755); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := writeAPIServerFiles(root, r.Options); err != nil {
			t.Fatal(err)
		}
	}
	for path, want := range map[string]fs.FileMode{
		apiserver.Dir: 0o700, apiserver.AuditDir: 0o700, apiserver.EncryptionPath: 0o600, apiserver.AdmissionPath: 0o600,
		apiserver.AuditPolicyPath: 0o600, apiserver.AuthenticationPath: 0o600,
	} {
		if got := mode(t, filepath.Join(root, path)); got != want {
			t.Errorf("%s has mode %04o, want %04o", path, got, want)
		}
	}
}

func TestWhatKubeadmWroteForEverybodyIsForRootAlone(t *testing.T) {
	root := t.TempDir()
	if err := CloseFiles(root); err != nil {
		t.Fatalf("nothing is there: %v", err)
	}
	for _, path := range written {
		at := filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := CloseFiles(root); err != nil {
		t.Fatal(err)
	}
	for _, path := range written {
		if got := mode(t, filepath.Join(root, path)); got != state.SecretFileMode {
			t.Errorf("%s has mode %04o", path, got)
		}
	}
}
