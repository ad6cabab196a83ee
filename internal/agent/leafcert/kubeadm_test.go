package leafcert

import (
	"bytes"
	"errors"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/decide/leafcert"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/render/kubeadm"
	"github.com/holdfast/holdfast/internal/testkit/builttest"
	"github.com/holdfast/holdfast/internal/testkit/sitetest"
)

// TestWhatKubeadmSignsIsRenewed has the release's kubeadm make all certificates of
// a control plane, with a short life.
func TestWhatKubeadmSignsIsRenewed(t *testing.T) {
	program := builttest.Program(t, "kubeadm")
	site := sitetest.New(t, sitetest.OneNone+"certificateValidityPeriod: 10m\n")
	conf, err := kubeadm.Init(site, state.HostFacts{NodeName: "cp-1", Addresses: []netip.Addr{netip.MustParseAddr("10.98.0.11")}}, false)
	if err != nil {
		t.Fatal(err)
	}
	h := &controlPlane{t: t, root: t.TempDir(), restarts: map[string]int{}}
	folder := h.root + "/etc/kubernetes"
	path := filepath.Join(t.TempDir(), "kubeadm.yaml")
	text := strings.Replace(string(conf), "\nkind: ClusterConfiguration\n", "\nkind: ClusterConfiguration\ncertificatesDir: "+folder+"/pki\n", 1)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"certs", "all"}, {"kubeconfig", "all", "--kubeconfig-dir", folder}, {"kubeconfig", "super-admin", "--kubeconfig-dir", folder}} {
		if _, err := host.Run(t.Context(), host.Cmd{Name: program, Args: append(append([]string{"init", "phase"}, args...), "--config", path)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(h.root+"/proc", 0o755); err != nil {
		t.Fatal(err)
	}
	later := time.Now().Add(7 * time.Minute).Truncate(time.Second)
	h.Keeper = New(Options{
		Root: h.root, Node: "cp-1", ControlPlanes: 1, Life: site.Config.CertificateLife(), Now: func() time.Time { return later },
		Log:  slog.New(slog.NewTextHandler(&bytes.Buffer{}, nil)),
		Open: func() (API, error) { return nil, errors.New("no API") },
	})
	for _, l := range leafcert.Leaves() {
		if c, _ := h.present(l); time.Until(c.NotAfter) > 10*time.Minute {
			t.Errorf("kubeadm gives %s a life until %s", l.Path, c.NotAfter)
		}
	}
	if _, err := h.step(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, l := range leafcert.Leaves() {
		if c, _ := h.present(l); !c.NotAfter.Equal(later.Add(10 * time.Minute)) {
			t.Errorf("%s expires at %s", l.Path, c.NotAfter)
		}
	}
	var rest []string
	walk(t, h, func(path string, _ os.FileInfo) {
		if filepath.Ext(path) == ".crt" && !strings.HasSuffix(path, "ca.crt") && h.renewed.all()[path] != 1 {
			rest = append(rest, path)
		}
	})
	if len(rest) > 0 {
		t.Errorf("kubeadm signs these too: %q", rest)
	}
}
