package dns

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/render/coredns"
)

func readFile(path string) (string, error) {
	data, err := os.ReadFile(path)
	return string(data), err
}

// goldens is the directory of the rendered files for every topology and family.
const goldens = "../../../internal/render/coredns/testdata"

func TestCoreDNSAcceptsEveryGolden(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(goldens, "*.Corefile"))
	if err != nil || len(files) < 12 {
		t.Fatalf("%v, %v", files, err)
	}
	n := newSite(t).host("192.168.111.20/24", "fd2e:6f44:5dd8::14/64")
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			n := &node{site: &site{t: t, name: n.name}, ns: n.ns, space: n.space, root: t.TempDir()}
			conf, err := readFile(file)
			if err != nil {
				t.Fatal(err)
			}
			zone, err := readFile(strings.TrimSuffix(file, "Corefile") + "zone")
			if err != nil {
				t.Fatal(err)
			}
			n.write(coredns.ZonePath, zone)
			n.write(coredns.ConfigPath, strings.Replace(conf, coredns.ZonePath, n.path(coredns.ZonePath), 1))
			s := n.launch()
			eventually(t, 10*time.Second, "the server says that it is healthy", func() bool { s.lives(); return n.healthy() })
			if log := s.log.String(); strings.Contains(log, "ERROR") || strings.Contains(log, "no names yet") {
				t.Errorf("the server complains:\n%s", log)
			}
		})
	}
}

// healthy makes the request of the static pod's probe.
func (n *node) healthy() bool {
	client := &http.Client{Timeout: time.Second, Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(_ context.Context, network, at string) (conn net.Conn, err error) {
			return conn, n.in(func() error { conn, err = net.Dial(network, at); return err })
		},
	}}
	answer, err := client.Get(fmt.Sprintf("http://127.0.0.1:%d/health", coredns.HealthPort))
	if err != nil {
		return false
	}
	_ = answer.Body.Close()
	return answer.StatusCode == http.StatusOK
}
