package etcdspace

// Tidies reports whether a host may remove the data that its etcd keeper set aside while there were two
// hosts. There is no keeper any more that counts them among its backups, this host's member votes and serves,
// and every voter answers, follows the same leader, and has found nothing corrupt.
func Tidies(f Facts) bool {
	if f.Shape != Static || !f.Own.Known || !f.Members.Known || f.Voters == 0 || len(f.Members.Value) != f.Voters || f.GoneCorrupt {
		return false
	}
	own := false
	for _, m := range f.Members.Value {
		if m.Leader == 0 || m.Leader != f.Own.Value.Leader || m.Corrupt {
			return false
		}
		own = own || m.ID == f.Own.Value.ID
	}
	return own
}
