package twonode

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// maxClusterName is the longest name that pcs accepts without force: the longest
// that GFS2 can store.
const maxClusterName = 15

// CorosyncName returns the name of a cluster in Corosync: its own if pcs accepts
// it, else as much of it as fits, with an end that tells it from others with the
// same beginning.
func CorosyncName(cluster string) string {
	plain := strings.Map(func(r rune) rune {
		if strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_", r) {
			return r
		}
		return '-'
	}, cluster)
	if plain == cluster && len(cluster) <= maxClusterName {
		return cluster
	}
	sum := sha256.Sum256([]byte(cluster))
	end := "-" + hex.EncodeToString(sum[:3])
	if room := maxClusterName - len(end); len(plain) > room {
		plain = plain[:room]
	}
	return plain + end
}
