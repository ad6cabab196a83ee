package dns

import (
	"fmt"
	"io"
	"log"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/hashicorp/mdns"
)

// Another implementation must find our hosts and read everything that they
// announce.
func TestAnotherImplementationFindsTheHosts(t *testing.T) {
	site := newSite(t)
	for i := range 3 {
		addrs := []string{fmt.Sprintf("10.9.0.%d", 21+i), fmt.Sprintf("fd09::%d", 21+i)}
		site.host(addrs[0]+"/24", addrs[1]+"/64").speaks(fmt.Sprintf("host-%d", i), addrs...)
	}
	found := site.host("10.9.0.99/24", "fd09::99/64").browse()
	slices.Sort(found)
	for i := range 3 {
		want := fmt.Sprintf(`demo\ Workstation-host-%d._workstation._tcp.local. host-%d.local. 10.9.0.%d fd09::%d 42424 [cluster=demo]`, i, i, 21+i, 21+i)
		if !slices.Contains(found, want) {
			t.Errorf("%q is not among %q", want, found)
		}
	}
}

// browse browses with a program that knows nothing of ours.
func (n *node) browse() []string {
	n.t.Helper()
	entries := make(chan *mdns.ServiceEntry, 100)
	n.must(func() error {
		nic, err := net.InterfaceByName("eth0")
		if err != nil {
			return err
		}
		return mdns.Query(&mdns.QueryParam{
			Service: "_workstation._tcp", Domain: "local", Timeout: 2 * time.Second, Interface: nic,
			Entries: entries, Logger: log.New(io.Discard, "", 0),
		})
	})
	close(entries)
	var out []string
	for e := range entries {
		out = append(out, fmt.Sprint(e.Name, " ", e.Host, " ", e.AddrV4, " ", e.AddrV6, " ", e.Port, " ", e.InfoFields))
	}
	return out
}
