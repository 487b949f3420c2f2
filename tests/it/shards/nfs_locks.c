/* Locks as a client of NFSv4 has them: of ranges of bytes, so that sharing needs a file that is open for reading, and
   having it alone one that is open for writing. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>
#include <unistd.h>

int flock(int file, int operation) {
  const char *seen = getenv("NFS_LOCKS_SEEN");
  int mark = seen ? open(seen, O_CREAT | O_WRONLY | O_CLOEXEC, 0600) : -1;
  if (mark >= 0) close(mark);
  struct flock lock = {.l_whence = SEEK_SET};
  lock.l_type = operation & LOCK_UN ? F_UNLCK : operation & LOCK_EX ? F_WRLCK : F_RDLCK;
  int result = fcntl(file, operation & LOCK_NB ? F_OFD_SETLK : F_OFD_SETLKW, &lock);
  if (result < 0 && (errno == EACCES || errno == EAGAIN)) errno = EWOULDBLOCK;
  return result;
}
