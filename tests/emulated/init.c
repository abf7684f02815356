/* init.c: the first process of the emulated machine (tests/emulate-avx512): runs the commands in /commands, a
 * line each, says on the console whether all of them ended well, and switches the emulator off. */
#include <stdio.h>
#include <string.h>
#include <sys/io.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
  MAX_WORDS = 32
};

/* Words are parted by blanks, the first is a path. */
static int run(char *command) {
  char *words[MAX_WORDS + 1] = {0}, *rest = command;
  int code = -1;
  for (int i = 0; i < MAX_WORDS; i++) words[i] = strtok_r(rest, " ", &rest);
  pid_t child = fork();
  if (child == 0) {
    execv(words[0], words);
    perror(words[0]);
    _exit(127);
  }
  if (child < 0 || waitpid(child, &code, 0) < 0) return -1;
  return code;
}

int main(void) {
  char line[1024];
  int failed = 0;
  FILE *commands = fopen("/commands", "r");
  mkdir("/proc", 0755);
  mount("proc", "/proc", "proc", 0, NULL);
  while (commands && fgets(line, sizeof line, commands)) {
    line[strcspn(line, "\n")] = '\0';
    printf("emulated: %s\n", line);
    fflush(stdout);
    int code = run(line);
    if (code != 0) printf("emulated: failed, wait status %d\n", code);
    failed += code != 0;
  }
  printf("emulated: %s\n", commands && !failed ? "all passed" : "not all passed");
  fflush(stdout);
  sleep(1); /* for the serial line */
  /* Bochs ends when it reads this word at this port. */
  if (iopl(3) == 0)
    for (const char *c = "Shutdown"; *c; c++) outb((unsigned char)*c, 0x8900);
  for (;;) pause();
}
