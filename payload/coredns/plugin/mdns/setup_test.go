package mdns

import (
	"fmt"
	"testing"

	"github.com/coredns/caddy"
)

func TestSetup(t *testing.T) {
	for _, tc := range []struct{ corefile, want string }{
		{"mdns demo.example.org {\n bind 192.0.2.20\n}", "{demo.example.org. [192.0.2.20]  [] map[]}"},
		{"mdns Demo.Example.org. {\n bind 192.0.2.20 2001:db8::20\n filter Demo\n}", "{demo.example.org. [192.0.2.20 2001:db8::20] demo [] map[]}"},
		{"mdns d {\n bind ::ffff:192.0.2.20\n bind 192.0.2.21\n except api API-int\n}", "{d. [192.0.2.20 192.0.2.21]  [api api-int] map[]}"},
		{"mdns d {\n bind 192.0.2.20\n srv _etcd-server-ssl._tcp\n srv _http._tcp 1\n}", "{d. [192.0.2.20]  [] map[_etcd-server-ssl._tcp:3 _http._tcp:1]}"},
	} {
		conf, err := parse(caddy.NewTestController("dns", tc.corefile))
		got := fmt.Sprintf("{%s %v %s %v %v}", conf.zone, conf.bind, conf.filter, conf.except, conf.services)
		if err != nil || got != tc.want {
			t.Errorf("%q: %v %s\nwant %s", tc.corefile, err, got, tc.want)
		}
	}
}

func TestSetupRefusesWhatItDoesNotKnow(t *testing.T) {
	for _, corefile := range []string{
		"mdns",
		"mdns d",
		"mdns d e {\n bind 192.0.2.20\n}",
		"mdns d {\n bind\n}",
		"mdns d {\n bind eth0\n}",
		"mdns d {\n bind 192.0.2.20\n filter\n}",
		"mdns d {\n bind 192.0.2.20\n filter a b\n}",
		"mdns d {\n bind 192.0.2.20\n ttl 5\n}",
		"mdns d {\n bind 192.0.2.20\n srv _a._tcp 0\n}",
		"mdns d {\n bind 192.0.2.20\n srv a._tcp\n}",
		"mdns d {\n bind 192.0.2.20\n srv _a._sctp\n}",
		"mdns d {\n bind 192.0.2.20\n}\nmdns e {\n bind 192.0.2.20\n}",
	} {
		if conf, err := parse(caddy.NewTestController("dns", corefile)); err == nil {
			t.Errorf("%q was taken: %v", corefile, conf)
		}
	}
}
