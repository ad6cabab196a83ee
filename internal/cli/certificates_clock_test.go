package cli

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/cli/command"
	"github.com/holdfast/holdfast/internal/decide/leafcert"
	"github.com/holdfast/holdfast/internal/render/kubeadm"
)

// clockOf returns a host on which an authority and the API server's certificate begin at
// some times.
func clockOf(t *testing.T, now, authority, leaf time.Time) hostClock {
	t.Helper()
	root := t.TempDir()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	put := func(path string, x, by *x509.Certificate) {
		der, err := x509.CreateCertificate(rand.Reader, x, by, &key.PublicKey, key)
		if err != nil {
			t.Fatal(err)
		}
		path = filepath.Join(root, path)
		data := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, data, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ca"}, NotBefore: authority, NotAfter: authority.AddDate(10, 0, 0),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	put(leafcert.KubernetesCA+".crt", ca, ca)
	put(leafcert.APIServer, &x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "api"}, NotBefore: leaf, NotAfter: leaf.AddDate(1, 0, 0)}, ca)
	if err := os.MkdirAll(filepath.Join(root, "run/holdfast"), 0o755); err != nil {
		t.Fatal(err)
	}
	return hostClock{root: root, now: func() time.Time { return now }, synchronised: func() (bool, error) { return true, nil }}
}

func TestAClockIsAcceptedForTheAgentOfThisHost(t *testing.T) {
	now := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	year := 365 * 24 * time.Hour
	run := func(c hostClock, accept, dry bool, code int, words string) {
		t.Helper()
		var out bytes.Buffer
		err := c.run(&out, "text", accept, dry)
		var coded *command.Coded
		switch {
		case code == command.ExitOK && err != nil, code != command.ExitOK && (!errors.As(err, &coded) || coded.Code != code):
			t.Errorf("%v, want exit code %d", err, code)
		case err != nil:
			out.WriteString(err.Error())
		}
		if !strings.Contains(out.String(), words) {
			t.Errorf("%s\nwithout %q", out.String(), words)
		}
	}
	written := func(c hostClock) bool {
		_, err := os.Stat(c.root + leafcert.AcceptedPath)
		return err == nil
	}
	fine := clockOf(t, now, now.Add(-year), now.Add(-time.Hour))
	run(fine, false, false, command.ExitOK, "no certificate is from a later day")
	run(fine, true, false, command.ExitOK, "no certificate is from a later day")
	later := clockOf(t, now, now.Add(-year), now.Add(year))
	run(later, false, false, command.ExitAttention, "/etc/kubernetes/pki/apiserver.crt is valid from 2027-11-23 12:00:00Z on")
	run(later, true, true, command.ExitOK, "--accept has the agent replace")
	if written(fine) || written(later) {
		t.Fatal("something was written")
	}
	loose := later
	loose.synchronised = func() (bool, error) { return false, nil }
	run(loose, true, false, command.ExitRefused, "not synchronised")
	loose.synchronised = func() (bool, error) { return false, os.ErrPermission }
	run(loose, true, false, command.ExitRefused, "unknown")
	wrong := clockOf(t, now, now.Add(time.Hour), now.Add(year))
	run(wrong, true, false, command.ExitRefused, "/etc/kubernetes/pki/ca.crt")
	if written(wrong) || written(later) {
		t.Fatal("something was written")
	}
	run(later, true, false, command.ExitOK, "The agent replaces them")
	data, err := os.ReadFile(later.root + leafcert.AcceptedPath)
	var accepted leafcert.Accepted
	if err = errors.Join(err, json.Unmarshal(data, &accepted)); err != nil || !accepted.Counts(now.Add(time.Minute), true) {
		t.Errorf("%s: %v", data, err)
	}
	worker := clockOf(t, now, now.Add(-year), now.Add(year))
	own := filepath.Join(worker.root, kubeadm.KubeletCertificate)
	if err := errors.Join(os.MkdirAll(filepath.Dir(own), 0o755), os.Rename(filepath.Join(worker.root, leafcert.APIServer), own)); err != nil {
		t.Fatal(err)
	}
	run(worker, false, false, command.ExitAttention, kubeadm.KubeletCertificate+" is valid from 2027-11-23 12:00:00Z on")
	if run(worker, true, false, command.ExitOK, "The agent replaces them"); !written(worker) {
		t.Error("a worker has no word of its administrator")
	}
	elsewhere := hostClock{root: t.TempDir(), now: later.now, synchronised: later.synchronised}
	if err := elsewhere.run(io.Discard, "text", false, false); err == nil || !strings.Contains(err.Error(), "run it on a host of one") {
		t.Errorf("no host of a cluster: %v", err)
	}
	if code, _, errs := runLine(t, "certificates", "clock", "--dry-run"); code != ExitUsage || !strings.Contains(errs, "--accept") {
		t.Errorf("%d %s", code, errs)
	}
}
