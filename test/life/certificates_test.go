package life_test

import (
	"bytes"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/decide/leafcert"
)

// busyGap is the longest time without a write on a busy machine while nothing is
// taken away. It is that of the scenarios of two nodes.
const busyGap = 2 * time.Second

// TestCertificatesAreRenewedUnderLoad waits until every certificate of every
// control plane was renewed several times, each control plane in its turn.
//
// With five renewals and a life of ten minutes it takes 35 minutes.
func TestCertificatesAreRenewedUnderLoad(t *testing.T) {
	play(t, "certificates renewed", func(tr *trial) {
		since := tr.Now()
		seen := tr.watchCertificates()
		limit := time.Duration(*renewals+1) * *life
		tr.Eventually(limit, fmt.Sprintf("each certificate is renewed %d times", *renewals), func() error { return seen.look(*renewals) })
		tr.Logf("%s", seen)
		tr.Noticed("", since)
		tr.NothingFailed("certificates renewed", since, tr.Clients()...)
		tr.outages(since)
		tr.noWriteGapAbove(busyGap)
		tr.nobodyFenced()
	})
}

// certificates are those that files of control planes had, one after the other.
type certificates struct {
	tr *trial
	// had is by host and path.
	had map[string][]*x509.Certificate
}

func (tr *trial) watchCertificates() *certificates {
	tr.Helper()
	c := &certificates{tr: tr, had: map[string][]*x509.Certificate{}}
	if err := c.look(0); err != nil {
		tr.Fatal(err)
	}
	if planes := len(tr.ControlPlanes()); len(c.had) < 10*planes { // super-admin.conf is on the first one alone
		tr.Fatalf("%d control planes have %d certificates, want twelve each: %s", planes, len(c.had), c)
	}
	return c
}

// look reads all files, and returns which of them were renewed less often than
// wanted.
func (c *certificates) look(want int) error {
	var missing []string
	for _, host := range c.tr.ControlPlanes() {
		root, err := c.tr.Lab.Root(c.tr.Context(), c.tr.Power, host)
		if err != nil {
			return err
		}
		for _, leaf := range leafcert.Leaves() {
			now, err := certificate(filepath.Join(root, leaf.Path))
			if err != nil {
				return fmt.Errorf("%s: %w", host, err)
			}
			if now == nil {
				continue // the kubeconfig names another file
			}
			name := host + " " + leaf.Path
			list := c.had[name]
			if len(list) == 0 || !list[len(list)-1].Equal(now) {
				list = append(list, now)
				c.had[name] = list
			}
			if time.Now().After(now.NotAfter) {
				c.tr.Errorf("%s has ended", name)
			}
			if len(list) <= want {
				missing = append(missing, name)
			}
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("%d certificates were not renewed so often, among them %s", len(missing), missing[0])
	}
	return nil
}

// String tells how often each was renewed.
func (c *certificates) String() string {
	var out []string
	for name, list := range c.had {
		out = append(out, fmt.Sprintf("%s: %d renewals", name, len(list)-1))
	}
	slices.Sort(out)
	return strings.Join(out, "\n")
}

// inKubeconfig finds the certificate of a kubeconfig's user.
var inKubeconfig = regexp.MustCompile(`client-certificate-data: (\S+)`)

// certificate returns the one in a file, nil for none.
func certificate(path string) (*x509.Certificate, error) {
	data, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		return nil, nil // super-admin.conf is on the first control plane alone
	}
	if err != nil {
		return nil, err
	}
	if !bytes.Contains(data, []byte("BEGIN CERTIFICATE")) {
		found := inKubeconfig.FindSubmatch(data)
		if found == nil {
			return nil, nil
		}
		if data, err = base64.StdEncoding.DecodeString(string(found[1])); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	block, _ := pem.Decode(data)
	if block == nil {
		return nil, fmt.Errorf("%s has no certificate", path)
	}
	return x509.ParseCertificate(block.Bytes)
}
