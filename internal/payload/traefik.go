package payload

import "slices"

// traefikPatches are what differs from Traefik: a mistake, and what a release cannot
// have.
func traefikPatches() []Patch {
	return slices.Concat([]Patch{lateWords}, withoutDNSChallenges(), certificatesOnly())
}

// lateWords: a connection on which nothing was said when Traefik closed its
// ports, as clients that dial ahead have, is handed to nobody once something is
// said on it, and its client waits to the end of the grace time, an hour
// (docs/adr/0019). Closed instead, it tries another router.
var lateWords = Patch{
	File: "pkg/server/server_entrypoint_tcp.go",
	Old:  "\th.connChan <- conn\n",
	New:  "\tselect {\n\tcase h.connChan <- conn:\n\tcase <-h.closeChan:\n\t\t_ = conn.Close()\n\t}\n",
}

// withoutDNSChallenges leaves out the clients of some hundred clouds' DNS, of
// which the module proxy lacks several, and a field that only a version of
// their module has that it lacks too. Routers never ask an authority of ACME for
// certificates.
func withoutDNSChallenges() []Patch {
	const file = "pkg/provider/acme/provider.go"
	return []Patch{
		{File: file, Old: "\t\"github.com/go-acme/lego/v5/providers/dns\"\n"},
		{
			File: file,
			Old:  "provider, err = dns.NewDNSChallengeProviderByName(p.DNSChallenge.Provider)",
			New:  `err = errors.New("DNS challenges are not in this build")`,
		},
		{
			File: file,
			Old:  "PreferredChain:   p.PreferredChain,\n\t\t\tEnableCommonName: !p.DisableCommonName,\n",
			New:  "PreferredChain:   p.PreferredChain,\n",
		},
	}
}
