package twonode

import (
	"crypto/hkdf"
	"crypto/sha256"
)

// keyLength is the length of pcs's own keys, which Corosync demands under FIPS.
const keyLength = 256

// CorosyncKey returns the key with which the two hosts sign their packets. Each
// makes it from the secret that it is given, so the key never crosses a network.
func CorosyncKey(in Input) []byte {
	key, err := hkdf.Key(sha256.New, []byte(in.Token), []byte(in.Cluster), "holdfast corosync authkey", keyLength)
	if err != nil {
		panic(err) // only for a length that HKDF cannot make, and 256 is none
	}
	return key
}
