package twonode

import (
	"crypto/hkdf"
	"crypto/sha256"
)

// keyLength is what pcs makes, and what Corosync needs where FIPS is asked for.
const keyLength = 256

// CorosyncKey is the key by which the two hosts know each other's packets. Each
// makes it from the secret that it is given, so that it never crosses a network.
func CorosyncKey(in Input) []byte {
	key, err := hkdf.Key(sha256.New, []byte(in.Token), []byte(in.Cluster), "holdfast corosync authkey", keyLength)
	if err != nil {
		panic(err) // of a length that it does not give, and this is none
	}
	return key
}
